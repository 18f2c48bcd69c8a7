import Synchronization

/// The lines of a log, for a test to read.
final class WrittenLines: Sendable {
    private let text = Mutex("")

    func add(_ line: [UInt8]) { text.withLock { $0 += String(decoding: line, as: UTF8.self) + "\n" } }

    /// All lines that were not taken.
    var all: String { text.withLock { $0 } }

    /// Returns the lines since they were taken last.
    func take() -> String {
        text.withLock { text in
            defer { text = "" }
            return text
        }
    }
}
