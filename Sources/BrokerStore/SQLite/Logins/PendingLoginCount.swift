import Broker
import GRDB
import Synchronization

/// The count of pending logins, for the cap on their total (SEC-119).
///
/// The count is updated with each change, which avoids counting up to 100,000 rows for each new login. The count may be too
/// high, but never too low. Taken and burned logins are subtracted at once. Expired logins are dropped when the rows are
/// counted again, after the cap is reached or a transaction is rolled back. Only the writer uses the count.
final class PendingLoginCount: Sendable {
    private struct State {
        var count: Int?
        /// The time when the rows were last counted.
        ///
        /// The count excludes logins that had expired by this time.
        var countedAt = WallTime(milliseconds: .min)
        /// The earliest expiry among the counted logins.
        var nextExpiry = WallTime(milliseconds: .max)
    }

    /// The shortest time between two counts while the cap is reached.
    private static let interval = Duration.milliseconds(250)

    /// Guards the count and its times, because any thread may call `invalidate`.
    private let state = Mutex(State())

    /// Returns whether one more login is within the cap.
    func hasRoom(_ limit: Int, at now: WallTime, _ database: Database) throws -> Bool {
        let current = state.withLock { $0 }
        if let count = current.count {
            if count < limit { return true }
            let early = current.countedAt <= now && now < current.countedAt.advanced(by: Self.interval)
            if now < current.nextExpiry || early { return false }
        }
        let (count, nextExpiry) =
            try database.first(LoginSQL.countPending, ["now": now.sql]) { columns in
                (try columns.small(), columns.optionalTime())
            } ?? (0, nil)
        state.withLock { state in
            state = State(count: count, countedAt: now, nextExpiry: nextExpiry ?? WallTime(milliseconds: .max))
        }
        return count < limit
    }

    func added(expiresAt: WallTime) {
        state.withLock { state in
            state.count = state.count.map { $0 + 1 }
            state.nextExpiry = min(state.nextExpiry, expiresAt)
        }
    }

    /// Subtracts a login that was taken or burned, unless the count excludes the login because it had expired.
    func removed(expiresAt: WallTime) {
        state.withLock { state in
            guard state.countedAt < expiresAt else { return }
            state.count = state.count.map { max($0 - 1, 0) }
        }
    }

    func invalidate() { state.withLock { $0.count = nil } }
}
