import Broker

/// Waits at the start for what the process before still holds: SQLite's lock, a listener's address.
///
/// One time limit for all of it.
struct StartWait: Sendable {
    /// The longest time in all.
    static let limit = Duration.seconds(30)
    /// The time between two attempts: what a restart without a hand-over costs at most.
    private static let pause = Duration.milliseconds(10)

    private let clock: BrokerClock
    private let end: Duration
    /// Is told why, once for each thing that is waited for.
    private let waits: @Sendable (String) -> Void

    /// Begins the time.
    init(clock: BrokerClock, waits: @escaping @Sendable (String) -> Void) {
        self.clock = clock
        self.waits = waits
        end = clock.monotonic() + Self.limit
    }

    /// Does `attempt` until it succeeds, fails by something else than what is waited for, or the time is up.
    func retrying<Value, Failure: Error>(
        _ attempt: () async throws(Failure) -> Value, while isHeld: (Failure) -> Bool
    ) async throws -> Value {
        var hasTold = false
        while true {
            do throws(Failure) {
                return try await attempt()
            } catch {
                guard isHeld(error), clock.monotonic() < end else { throw error }
                if !hasTold { waits("\(error)") }
                hasTold = true
            }
            try await clock.sleep(Self.pause)
        }
    }
}
