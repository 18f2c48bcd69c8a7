import Broker

/// Waits at the start for resources that the previous process still holds: SQLite's lock and a listener's address.
///
/// One time limit covers both waits.
struct StartWait: Sendable {
    /// The longest total wait.
    static let limit = Duration.seconds(30)
    /// The time between two attempts to get a resource.
    ///
    /// A restart without passed sockets takes at most this much longer than necessary.
    private static let pause = Duration.milliseconds(10)

    private let clock: BrokerClock
    private let end: Duration
    /// Called with the reason for waiting, once for each resource.
    private let waits: @Sendable (String) -> Void

    /// Starts the time limit.
    init(clock: BrokerClock, waits: @escaping @Sendable (String) -> Void) {
        self.clock = clock
        self.waits = waits
        end = clock.monotonic() + Self.limit
    }

    /// Repeats `attempt` until one of three things happens: it succeeds; it fails for a reason other than a held resource
    /// (`isHeld`); or the time is up.
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
