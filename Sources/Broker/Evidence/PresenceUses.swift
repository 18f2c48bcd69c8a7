import Synchronization

/// Limits the number of presence proofs that a session may use in a minute.
///
/// The counts are in memory, so each replica counts only its own calls. The limit bounds the number of rows that one session
/// can cause in the store. The limit is higher than the number of calls that a user can confirm in a minute.
final class PresenceUses: Sendable {
    /// The largest number of proofs that a session may use in a minute.
    static let perMinute = 30
    /// The largest number of sessions in memory, where they take at most 18 MiB.
    static let maximum = 16_384
    private static let window = Duration.seconds(60)

    private struct State {
        /// The moments at which a session used presence proofs, the oldest first.
        var uses: [Digest: [Duration]] = [:]
        /// The earliest moment of the next search for sessions whose last proof is more than a minute old.
        ///
        /// Only a full table is searched.
        var nextSweep = Duration.zero
    }

    private let state = Mutex(State())
    private let maximum: Int

    init(maximum: Int = maximum) { self.maximum = maximum }

    /// Returns whether a session may use another presence proof now.
    ///
    /// Proofs that are still being checked are counted later.
    func allows(_ session: Digest, at now: Duration) -> Bool {
        state.withLock { state in
            (state.uses[session]?.count { now - $0 < Self.window } ?? 0) < Self.perMinute
        }
    }

    /// Counts the use of a presence proof by a session.
    ///
    /// Returns false if the use is refused, because the session has reached its limit, or because the table is full.
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

    /// The number of sessions in memory.
    var count: Int { state.withLock(\.uses.count) }
}
