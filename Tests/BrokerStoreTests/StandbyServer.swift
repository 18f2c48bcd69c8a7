import Foundation
import Testing

@testable import BrokerStore

/// A PostgreSQL with a synchronous standby.
///
/// The script `Tests/scenarios/support/postgresql --standby` runs both servers, and stops them when its input is closed.
final class StandbyServer {
    let url: String
    /// The URL of the standby alone.
    ///
    /// The URL has `target_session_attrs=any`, because libpq would otherwise refuse a server that only reads.
    let standbyURL: String
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()

    init() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        process.executableURL = root.appendingPathComponent("scenarios/support/postgresql")
        process.arguments = ["--standby"]
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        let words = try Self.words(output)
        guard words.count == 6, words[0] == "ready" else {
            throw PostgreSQLServer.Missing(
                description: "no PostgreSQL for the tests: `scripts/setup test` installs what is missing")
        }
        url = "postgresql://coatcheck@127.0.0.1:\(words[1]),127.0.0.1:\(words[5])/postgres"
        standbyURL = "postgresql://coatcheck@127.0.0.1:\(words[5])/postgres?target_session_attrs=any"
    }

    deinit { try? input.fileHandleForWriting.close() }

    /// Sends a command to the script, and waits until it is done.
    func command(_ word: String) throws {
        try input.fileHandleForWriting.write(contentsOf: Data("\(word)\n".utf8))
        try #require(try Self.words(output).first == "done", "\(word)")
    }

    private static func words(_ output: Pipe) throws -> [String] {
        var line: [UInt8] = []
        while let byte = try output.fileHandleForReading.read(upToCount: 1)?.first, byte != UInt8(ascii: "\n") {
            line.append(byte)
        }
        return String(decoding: line, as: UTF8.self).split(separator: " ").map { String($0) }
    }
}
