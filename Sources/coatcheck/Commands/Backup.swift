import ArgumentParser
import Broker
import Foundation

/// Has a running broker write a backup of its database.
struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Back up a running broker's SQLite database, through the management listener.",
        discussion: """
            The broker writes the file itself, with mode 0600, and looks through it: it has to be on the broker's machine, \
            in a folder that the broker may write in. An existing file is left alone. Keep the key ring elsewhere.
            """)

    @OptionGroup var defaults: ConfigDefaults
    @OptionGroup var management: ManagementClient
    @Argument(help: "The new file.", completion: .file()) var file: String

    func run() async throws {
        let path = file.hasPrefix("/") ? file : FileManager.default.currentDirectoryPath + "/" + file
        // Where it can be seen from here it need not be asked.
        guard !FileManager.default.fileExists(atPath: path) else {
            throw ManagementClient.fault("\(file) exists already; it is not overwritten")
        }
        var writer = JSONWriter(capacity: 256)
        writer.object { $0.member("file", path) }
        let answer = try await management.completed(by: defaults.config)
            .call("POST", "/admin/v1/backups", body: writer.bytes, within: .seconds(3600))
        func number(_ name: String) -> Int64 { answer?[name]?.integer ?? 0 }
        print("\(path): \(number("bytes")) bytes, \(number("sessions")) sessions")
        print("the integrity check passes; \(answer?["ring"]?.string ?? "")")
        guard answer?["opens"] == .bool(true) else { throw ExitCode(1) }
    }
}
