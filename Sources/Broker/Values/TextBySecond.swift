import Synchronization

/// Makes a text of the time once a second, not for every answer and every line that has it.
package final class TextBySecond: Sendable {
    private struct Made {
        var second: Int64
        var text: String
    }

    private let make: @Sendable (WallTime) -> String
    private let made = Mutex<Made?>(nil)

    /// Creates it with what makes the text; of the time that may use whole seconds only.
    package init(_ make: @escaping @Sendable (WallTime) -> String) { self.make = make }

    /// Returns the text for `time`.
    package func text(at time: WallTime) -> String {
        made.withLock { made in
            if let made, made.second == time.seconds { return made.text }
            let text = make(time)
            made = Made(second: time.seconds, text: text)
            return text
        }
    }
}
