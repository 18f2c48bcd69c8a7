/// The clocks that the domain uses, as closures that tests and simulations can replace.
package struct BrokerClock: Sendable {
    /// The calendar time, for rows and lifetimes.
    package let now: @Sendable () -> WallTime
    /// The monotonic time since some fixed moment, for deadlines (SEC-128).
    package let monotonic: @Sendable () -> Duration
    /// Waits; throws `CancellationError` if the task is cancelled.
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
