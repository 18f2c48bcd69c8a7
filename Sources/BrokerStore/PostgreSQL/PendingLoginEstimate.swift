import Broker
import Synchronization

/// The count of pending logins behind the cap on their total (SEC-119): read from time to time, and carried on with what
/// this process does itself (decision 22).
///
/// Replicas may go beyond the cap by what they begin within two seconds.
final class PendingLoginEstimate: Sendable {
    private struct State {
        var count: Int?
        /// By the process's clock, when it was read.
        var readAt = Duration.zero
        /// When it was counted: what expired before is not in it.
        var countedAt = WallTime(milliseconds: .min)
        /// The earliest end of a login that is in it.
        var nextExpiry = WallTime(milliseconds: .max)
    }

    private static let lifetime = Duration.seconds(2)
    /// At the cap, counting anew is worth it this often.
    private static let interval = Duration.milliseconds(250)

    private let monotonic: @Sendable () -> Duration
    /// Guards the count.
    private let state = Mutex(State())

    init(monotonic: @escaping @Sendable () -> Duration) { self.monotonic = monotonic }

    /// Returns whether one more login is within the cap, or nil where it has to be counted first.
    func hasRoom(_ limit: Int, at now: WallTime) -> Bool? {
        let moment = monotonic()
        return state.withLock { state in
            guard let count = state.count, moment - state.readAt < Self.lifetime else { return nil }
            if count < limit { return true }
            let isEarly = state.countedAt <= now && now < state.countedAt.advanced(by: Self.interval)
            return now < state.nextExpiry || isEarly ? false : nil
        }
    }

    /// Takes over what was counted at `now`.
    func counted(_ count: Int, nextExpiry: WallTime?, at now: WallTime) {
        let moment = monotonic()
        state.withLock { state in
            state = State(
                count: count, readAt: moment, countedAt: now,
                nextExpiry: nextExpiry ?? WallTime(milliseconds: .max))
        }
    }

    func added(expiresAt: WallTime) {
        state.withLock { state in
            state.count = state.count.map { $0 + 1 }
            state.nextExpiry = min(state.nextExpiry, expiresAt)
        }
    }

    /// Takes one off that was taken or burned, unless it had expired before the count and was not in it.
    func removed(expiresAt: WallTime) {
        state.withLock { state in
            guard state.countedAt < expiresAt else { return }
            state.count = state.count.map { max($0 - 1, 0) }
        }
    }

    /// Forgets the count: it is read before the next login.
    func invalidate() { state.withLock { $0.count = nil } }
}
