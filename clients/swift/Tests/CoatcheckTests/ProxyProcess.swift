import Foundation

@testable import Coatcheck

/// A proxy of `Tests/scenarios/support` in front of the broker.
///
/// The process ends when this object is deinitialized.
final class ProxyProcess: @unchecked Sendable {
    let url: URL
    private let process = Process()
    private let input = Pipe()

    /// Starts a proxy and reads its port, which it prints first.
    init(_ script: String, to broker: URL, _ more: [String] = []) throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments =
            ["python3", root.appendingPathComponent("Tests/scenarios/support/\(script)").path, "\(broker.port ?? 80)"]
            + more
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        guard let port = Int(line.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw Stack.Failure(text: "no proxy: \(line)")
        }
        url = try Stack.url("http://127.0.0.1:\(port)")
    }

    deinit {
        try? input.fileHandleForWriting.close()
        process.terminate()
    }
}
