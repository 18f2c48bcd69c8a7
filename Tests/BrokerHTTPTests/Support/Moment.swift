import Synchronization

/// A monotonic clock that a test moves.
final class Moment: Sendable {
    private let state = Mutex(Duration.seconds(100))
    var value: Duration { state.withLock { $0 } }
    func advance(_ duration: Duration) { state.withLock { $0 += duration } }
}
