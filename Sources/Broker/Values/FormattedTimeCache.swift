import Synchronization

/// Makes a text of the time once a second, not for every answer and every line that has it.
package final class FormattedTimeCache: Sendable {
    private struct CachedText {
        var second: Int64
        var text: String
    }

    private let make: @Sendable (WallTime) -> String
    private let cached = Mutex<CachedText?>(nil)

    /// Creates it with what makes the text; of the time that may use whole seconds only.
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
