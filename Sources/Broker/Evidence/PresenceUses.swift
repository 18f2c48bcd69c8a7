import Synchronization

/// Limits the number of presence proofs that a session may use in a minute.
///
/// The counts are in memory, so each replica counts only its own calls. The limit bounds the number of rows that one session
/// can make in the store. It is higher than the number of calls that a user can confirm in a minute.
final class PresenceUses: Sendable {
    /// The largest number of proofs that a session may use in a minute.
    static let perMinute = 30
    /// The largest number of sessions that are remembered, in at most 18 MiB.
    static let maximum = 16_384
    private static let window = Duration.seconds(60)

    private struct State {
        /// The moments of a session's uses, the oldest first.
        var uses: [Digest: [Duration]] = [:]
        /// The earliest time at which a full table is searched again for sessions without a use in the last minute.
        var nextSweep = Duration.zero
    }

    private let state = Mutex(State())
    private let maximum: Int

    init(maximum: Int = maximum) { self.maximum = maximum }

    /// Returns whether a session may use another proof; proofs in progress are not counted yet.
    func allows(_ session: Digest, at now: Duration) -> Bool {
        state.withLock { state in
            (state.uses[session]?.count { now - $0 < Self.window } ?? 0) < Self.perMinute
        }
    }

    /// Counts a use.
    ///
    /// Returns false if the session has reached its limit, or the table is full.
    func take(_ session: Digest, at now: Duration) -> Bool {
        state.withLock { state in
            if state.uses[session] == nil, state.uses.count >= maximum {
                guard now >= state.nextSweep else { return false }
                state.nextSweep = now + .seconds(1)
                state.uses = state.uses.filter { $0.value.contains { now - $0 < Self.window } }
                guard state.uses.count < maximum else { return false }
            }
            var uses = (state.uses[session] ?? []).filter { now - $0 < Self.window }
            guard uses.count < Self.perMinute else { return false }
            uses.append(now)
            state.uses[session] = uses
            return true
        }
    }

    /// The number of sessions remembered.
    var count: Int { state.withLock(\.uses.count) }
}
