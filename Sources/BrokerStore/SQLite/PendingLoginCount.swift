import Broker
import GRDB
import Synchronization

/// The count of pending logins behind the cap on their total (SEC-119), without counting 100,000 rows each time.
///
/// It never counts too few: taken and burned logins are subtracted as they happen, expired ones only when the count has
/// reached the cap and is made anew. Only the writer uses it; after a rollback it is made anew too.
final class PendingLoginCount: Sendable {
    private struct State {
        var count: Int?
        /// When it was counted: what expired before is not in it.
        var countedAt = WallTime(milliseconds: .min)
        /// The earliest end of a login that is in it.
        var nextExpiry = WallTime(milliseconds: .max)
    }

    /// At the cap, counting anew is worth it this often.
    private static let interval = Duration.milliseconds(250)

    /// Guards the count against `invalidate`, which any thread may call.
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
            try database.first(LoginSQL.countPending, [now.sql]) { columns in
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

    /// Takes one off that was taken or burned, unless it had expired before the count and was not in it.
    func removed(expiresAt: WallTime) {
        state.withLock { state in
            guard state.countedAt < expiresAt else { return }
            state.count = state.count.map { max($0 - 1, 0) }
        }
    }

    func invalidate() { state.withLock { $0.count = nil } }
}
