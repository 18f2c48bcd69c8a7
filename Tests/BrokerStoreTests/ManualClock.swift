import Synchronization

/// A store's monotonic clock that a test moves.
final class ManualClock: Sendable {
    /// Guards the moment.
    private let moment = Mutex(Duration.seconds(1_000))

    var now: @Sendable () -> Duration { { self.moment.withLock { $0 } } }

    func advance(_ seconds: Int64) { moment.withLock { $0 += .seconds(seconds) } }
}
