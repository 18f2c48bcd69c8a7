import Broker
import Synchronization

/// Makes the `Date` field's value once a second instead of for every answer.
final class DateField: Sendable {
    private struct Made {
        var second: Int64
        var text: String
    }

    private let now: @Sendable () -> WallTime
    private let made: Mutex<Made>

    init(now: @escaping @Sendable () -> WallTime) {
        self.now = now
        let time = now()
        made = Mutex(Made(second: time.seconds, text: time.httpDate))
    }

    /// The value for an answer that is made now.
    var text: String {
        let time = now()
        return made.withLock { made in
            if made.second != time.seconds { made = Made(second: time.seconds, text: time.httpDate) }
            return made.text
        }
    }
}
