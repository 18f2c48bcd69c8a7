import Synchronization

/// Keeps the text of the current time for a second, instead of making it for every answer and log line.
package final class FormattedTimeCache: Sendable {
    private struct CachedText {
        var second: Int64
        var text: String
    }

    private let make: @Sendable (WallTime) -> String
    private let cached = Mutex<CachedText?>(nil)

    /// Creates a cache of the texts that `make` returns; `make` may use only the whole seconds of the time.
    package init(_ make: @escaping @Sendable (WallTime) -> String) { self.make = make }

    /// Returns the text for `time`.
    package func text(at time: WallTime) -> String {
        cached.withLock { cached in
            if let cached, cached.second == time.seconds { return cached.text }
            let text = make(time)
            cached = CachedText(second: time.seconds, text: text)
            return text
        }
    }
}
