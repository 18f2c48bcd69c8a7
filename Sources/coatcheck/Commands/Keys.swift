import ArgumentParser
import Broker
import BrokerVault

/// Makes and shows key rings.
struct Keys: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make, rotate, list and remove the keys that seal what is stored.",
        subcommands: [Generate.self, Rotate.self, List.self, KeysReseal.self, KeysRemove.self])

    struct File: ParsableArguments {
        @Option(name: .long, help: "The key file.", completion: .file(extensions: ["json"]))
        var file: String

        /// Reads the ring; ends with status 1 if the ring is unusable.
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

    struct Rotate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a new key, which seals after a while; the others go on opening what they sealed.",
            discussion: """
                Running brokers see the new file within seconds. Each of them has to have it before the key begins to seal: \
                with several replicas, bring the file to all of them within the time of --after. Then `coatcheck keys \
                reseal`, and `coatcheck keys remove` for the old key. With an admin token the running broker is asked \
                whether it has the new key: status 1 if it does not take it up.
                """)
        @OptionGroup var file: File
        @OptionGroup var defaults: ConfigDefaults
        @OptionGroup var management: ManagementClient
        @Option(help: "How long it only opens (30s, 10m, 2h).") var after = "10m"
        @Flag(help: "It seals at once: for a single process, or where no broker runs.") var now = false
        @Flag(help: "The file is a copy that is brought to the brokers later: do not ask whether they have it.")
        var copy = false

        func validate() throws {
            guard DurationText.parse(after) != nil else {
                throw ValidationError("--after needs a duration such as 30s, 10m or 2h")
            }
        }

        func run() async throws {
            let client = try management.completed(by: defaults.config)
            let running = copy || !client.hasToken ? nil : RunningRing(management: client)
            let old = try file.ring()
            let moment = SystemClock.wallTime()
            let sealsFrom = now ? nil : DurationText.parse(after).map { moment.advanced(by: $0) }
            let ring = try Keys.explaining(file.file) { () throws(KeyRingFailure) in
                try old.rotated(now: moment, sealsFrom: sealsFrom, random: SystemRandom.bytes)
            }
            try Keys.explaining(file.file) { () throws(PrivateFile.Failure) in
                try PrivateFile.replace(file.file, content: ring.json())
            }
            let newest = ring.list(at: moment).first
            print(
                "\(file.file) has \(ring.list.count) keys now; \(newest?.id ?? "the new one") seals "
                    + (newest?.waitsUntil.map { "from \($0.rfc3339) on" } ?? "from now on"))
            guard let running, let newest else { return }
            try await running.wait(for: file.file, toTell: "does not know \(newest.id)") { $0[newest.id] != nil }
            print("the running broker knows it")
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show the keys' ids and ages, never the keys.")
        @OptionGroup var file: File
        @Flag(help: "Without the line of the columns' names.") var noHeader = false

        func run() throws {
            let ring = try file.ring()
            if !noHeader { print("ID\tCREATED_AT\tUSE") }
            for entry in ring.list(at: SystemClock.wallTime()) {
                let use = entry.seals ? "seals" : "opens"
                let next = entry.waitsUntil.map { ", seals from \($0.rfc3339)" } ?? ""
                print("\(entry.id)\t\(entry.created.rfc3339)\t\(use)\(next)")
            }
        }
    }

    /// Runs a step of a command.
    ///
    /// A fault is printed on standard error and ends the command with status 1.
    static func explaining<Value, Failure: Error>(_ file: String, _ body: () throws(Failure) -> Value) throws -> Value {
        do throws(Failure) {
            return try body()
        } catch {
            StandardError.write("\(error)".hasPrefix(file) ? "\(error)" : "\(file): \(error)")
            throw ExitCode(1)
        }
    }
}

/// The path of a configuration's key file.
enum KeyFileName {
    /// Reads only the setting `keys.file` of a configuration; returns nil if the keys are in an environment variable.
    ///
    /// The other files that the configuration names need not exist on this machine.
    static func read(_ file: String) throws -> String? {
        let text: String
        do throws(ConfigurationFailure) { text = try Configuration.text(of: file) } catch {
            throw ManagementClient.fault("\(error)")
        }
        let context = ConfigContext(sources: .process(directory: Configuration.folder(of: file)))
        guard let root = context.compose(text) else { throw ManagementClient.fault("\(file) is not YAML") }
        let section = ConfigSection(root, path: "", pattern: "", line: 1, context: context).section("keys")
        guard section.has("file") else { return nil }
        return section.text("file", limit: 4096).map { context.sources.resolve($0) }
    }
}
