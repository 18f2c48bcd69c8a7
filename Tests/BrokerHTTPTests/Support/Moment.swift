import Synchronization

/// A clock that a test moves.
final class Moment: Sendable {
    static let start = Duration.seconds(100)
    private let state = Mutex(start)
    var value: Duration { state.withLock { $0 } }
    func advance(_ duration: Duration) { state.withLock { $0 += duration } }
}
