package import Broker
import GRDB
import Synchronization

extension SQLiteStore {
    package func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion {
        let pending = pendingLogins
        return try await writer.write { database in
            let ofToken =
                try database.first(
                    LoginSQL.countPendingOfToken, [row.loginToken.sql, row.createdAt.sql]
                ) { try $0.small() } ?? 0
            if ofToken >= limits.pendingPerToken { return .tooManyForToken }
            guard try pending.hasRoom(limits.pending, at: row.createdAt, database) else { return .tooManyPending }
            try database.change(LoginSQL.insert, row.values)
            if row.status == .pending { pending.added(expiresAt: row.expiresAt) }
            return .inserted
        }
    }

    package func login(state: Digest) async throws(StoreFailure) -> LoginRow? {
        try await readers.read { database in
            try database.first(LoginSQL.byState, [state.sql]) { try LoginRow(&$0) }
        }
    }

    package func pendingLogins(loginToken: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow] {
        try await readers.read { database in
            try database.rows(
                LoginSQL.pending, [loginToken.sql, now.sql, RetentionPeriods.pendingLogins.databaseValue]
            ) { try? LoginRow(&$0) }.compactMap { $0 }
        }
    }

    package func burnLogin(state: Digest) async throws(StoreFailure) -> Bool {
        let pending = pendingLogins
        return try await writer.write { database in
            guard let expiresAt = try database.first(LoginSQL.burn, [state.sql], { try $0.time() }) else {
                // Nothing burned: it is gone, taken, or a newer version's, which is said.
                _ = try database.first(LoginSQL.byState, [state.sql]) { try LoginRow(&$0) }
                return false
            }
            pending.removed(expiresAt: expiresAt)
            return true
        }
    }

    package func keepHandoff(_ row: HandoffRow) async throws(StoreFailure) -> Bool {
        try await writer.write { database in
            if try database.change(HandoffSQL.keep, row.values) == 1 { return true }
            return try database.first(HandoffSQL.byLogin, [row.login.sql]) { try HandoffRow(&$0) }?.key == row.key
        }
    }

    package func handoff(_ key: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await readers.read { database in
            try database.first(HandoffSQL.byKey, [key.sql]) { try HandoffRow(&$0) }
        }
    }

    package func handoff(login: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await readers.read { database in
            try database.first(HandoffSQL.byLogin, [login.sql]) { try HandoffRow(&$0) }
        }
    }

    package func registration(_ key: Digest) async throws(StoreFailure) -> RegistrationRow? {
        try await readers.read { database in
            try database.first(RegistrationSQL.byKey, [key.sql]) { try RegistrationRow(&$0) }
        }
    }

    package func insertRegistration(_ row: RegistrationRow) async throws(StoreFailure) {
        try await writer.write { database in _ = try database.change(RegistrationSQL.insert, row.values) }
    }
}

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
