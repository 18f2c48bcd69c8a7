/// The time as the domain sees it: three closures, so that tests and simulations own it.
package struct BrokerClock: Sendable {
    /// The calendar time, for rows and lifetimes.
    package let now: @Sendable () -> WallTime
    /// Time since some fixed moment that never goes back, for deadlines (SEC-128).
    package let monotonic: @Sendable () -> Duration
    /// Waits; throws `CancellationError` when the task is cancelled.
    package let sleep: @Sendable (Duration) async throws -> Void

    /// Creates a clock from its closures.
    package init(
        now: @escaping @Sendable () -> WallTime,
        monotonic: @escaping @Sendable () -> Duration,
        sleep: @escaping @Sendable (Duration) async throws -> Void
    ) {
        self.now = now
        self.monotonic = monotonic
        self.sleep = sleep
    }
}
