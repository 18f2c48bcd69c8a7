import ArgumentParser
import Broker
import Foundation
import Glibc

/// Requests a backup of the database from a running broker.
struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Back up a running broker's SQLite database, through the management listener.",
        discussion: """
            The broker writes the file itself, with mode 0600, and looks through it: it has to be on the broker's machine, \
            in a folder that the broker may write in. An existing file is left alone. Keep the key ring elsewhere. \
            Afterwards this command looks whether the file is there: under systemd a broker has a /tmp of its own.
            """)

    @OptionGroup var defaults: ConfigDefaults
    @OptionGroup var management: ManagementClient
    @Argument(help: "The new file.", completion: .file()) var file: String
    @Flag(help: "The broker is on another machine, or in a container: do not look for the file here.")
    var elsewhere = false

    func run() async throws {
        let path = file.hasPrefix("/") ? file : FileManager.default.currentDirectoryPath + "/" + file
        // The broker refuses to overwrite a file. If this machine already sees the file, fail before calling the broker.
        guard !FileManager.default.fileExists(atPath: path) else {
            throw ManagementClient.fault("\(file) exists already; it is not overwritten")
        }
        var writer = JSONWriter(capacity: 256)
        writer.object { $0.member("file", path) }
        let client = try management.completed(by: defaults.config)
        let answer = try await client.call(
            "POST", "/admin/v1/backups", body: writer.bytes, within: .seconds(3600))
        func number(_ name: String) -> Int64 { answer?[name]?.integer ?? 0 }
        print("\(path): \(number("bytes")) bytes, \(number("sessions")) sessions")
        print("the integrity check passes; \(answer?["ring"]?.string ?? "")")
        if !elsewhere, client.isOnLoopback { try Self.look(path, bytes: number("bytes")) }
        guard answer?["opens"] == .bool(true) else { throw ExitCode(1) }
    }

    /// Checks that the file which the broker wrote is visible on this machine.
    private static func look(_ path: String, bytes: Int64) throws {
        var status = stat()
        guard stat(path, &status) == 0 else {
            let reason = String(cString: strerror(errno))
            guard errno == ENOENT else {
                throw ManagementClient.fault("this user cannot check whether \(path) exists: \(reason)")
            }
            throw ManagementClient.fault(
                "\(path) is not here: the broker has written it where only it looks. With systemd's PrivateTmp= it has a "
                    + "/tmp of its own, which goes with its end: name another folder (ReadWritePaths=). Where the broker is on "
                    + "another machine or in a container, say --elsewhere")
        }
        guard Int64(status.st_size) == bytes else {
            throw ManagementClient.fault(
                "\(path) is another file than the broker's: it has \(status.st_size) bytes here, and the broker wrote \(bytes)"
            )
        }
    }
}
