import ArgumentParser
import Broker
import BrokerVault

/// Makes and shows key rings.
struct Keys: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make, rotate and list the keys that seal what is stored.",
        subcommands: [Generate.self, Rotate.self, List.self])

    struct File: ParsableArguments {
        @Option(name: .long, help: "The key file.")
        var file: String

        /// Reads the ring; ends with status 1 when it cannot be used.
        func ring() throws -> KeyRing {
            guard let bytes = BoundedFile.read(file, limit: 65_536) else {
                StandardError.write("\(file) cannot be read")
                throw ExitCode(1)
            }
            return try Keys.explaining(file) { () throws(KeyRingFailure) in try KeyRing.parse(bytes) }
        }
    }

    struct Generate: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make a new key file; an existing one is left alone.")
        @OptionGroup var file: File

        func run() throws {
            let ring = try Keys.explaining(file.file) { () throws(KeyRingFailure) in
                try KeyRing.generate(now: SystemClock.wallTime(), random: SystemRandom.bytes)
            }
            try Keys.explaining(file.file) { () throws(PrivateFile.Failure) in
                try PrivateFile.create(file.file, content: ring.json())
            }
            print("made \(file.file); keep a copy of it apart from the database: without it nothing stored can be read")
        }
    }

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Put a new key first; the others go on opening what they sealed.",
            discussion:
                "Running brokers take it up on SIGHUP. With several replicas, copy the file to all of them first.")
        @OptionGroup var file: File

        func run() throws {
            let old = try file.ring()
            let ring = try Keys.explaining(file.file) { () throws(KeyRingFailure) in
                try old.rotated(now: SystemClock.wallTime(), random: SystemRandom.bytes)
            }
            try Keys.explaining(file.file) { () throws(PrivateFile.Failure) in
                try PrivateFile.replace(file.file, content: ring.json())
            }
            print("\(file.file) has \(ring.list.count) keys now; send running brokers SIGHUP")
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show the keys' ids and ages, never the keys.")
        @OptionGroup var file: File

        func run() throws {
            for entry in try file.ring().list {
                print("\(entry.id)\t\(entry.created.rfc3339)\t\(entry.seals ? "seals" : "opens")")
            }
        }
    }

    /// Runs a step; a fault is said on standard error and ends the command with status 1.
    static func explaining<Value, Failure: Error>(_ file: String, _ body: () throws(Failure) -> Value) throws -> Value {
        do throws(Failure) {
            return try body()
        } catch {
            StandardError.write("\(error)".hasPrefix(file) ? "\(error)" : "\(file): \(error)")
            throw ExitCode(1)
        }
    }
}
