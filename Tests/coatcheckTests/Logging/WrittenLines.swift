import Synchronization

/// Collects the lines of a log, so that a test can read them.
final class WrittenLines: Sendable {
    private let text = Mutex("")

    func add(_ line: [UInt8]) { text.withLock { $0 += String(decoding: line, as: UTF8.self) + "\n" } }

    /// All lines since the last `take`.
    var all: String { text.withLock { $0 } }

    /// Returns and removes the lines since the last call.
    func take() -> String {
        text.withLock { text in
            defer { text = "" }
            return text
        }
    }
}
