import Broker
import Synchronization

/// The estimated number of all pending logins, for the cap on this number (SEC-119).
///
/// The number is read from the database at most every two seconds, and updated with this process's own changes (decision 22).
/// So replicas together may exceed the cap by the logins that they begin within two seconds.
final class PendingLoginEstimate: Sendable {
    private struct State {
        var count: Int?
        /// The time when the count was read, by the process's clock.
        var readAt = Duration.zero
        /// The time that the count is valid for.
        ///
        /// The count excludes logins that had expired by this time.
        var countedAt = WallTime(milliseconds: .min)
        /// The earliest expiry among the counted logins.
        var nextExpiry = WallTime(milliseconds: .max)
    }

    private static let lifetime = Duration.seconds(2)
    /// The shortest time between two counts while the cap is reached.
    private static let interval = Duration.milliseconds(250)

    private let monotonic: @Sendable () -> Duration
    /// Guards the count.
    private let state = Mutex(State())

    init(monotonic: @escaping @Sendable () -> Duration) { self.monotonic = monotonic }

    /// Returns whether one more login is within the cap, or nil if the logins have to be counted first.
    func hasRoom(_ limit: Int, at now: WallTime) -> Bool? {
        let moment = monotonic()
        return state.withLock { state in
            guard let count = state.count, moment - state.readAt < Self.lifetime else { return nil }
            if count < limit { return true }
            let isEarly = state.countedAt <= now && now < state.countedAt.advanced(by: Self.interval)
            return now < state.nextExpiry || isEarly ? false : nil
        }
    }

    /// Stores a count that was made at `now`.
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

    /// Subtracts a login that was taken or burned, unless it had expired before the count.
    func removed(expiresAt: WallTime) {
        state.withLock { state in
            guard state.countedAt < expiresAt else { return }
            state.count = state.count.map { max($0 - 1, 0) }
        }
    }

    /// Forgets the count, so that it is read again before the next login.
    func invalidate() { state.withLock { $0.count = nil } }
}
