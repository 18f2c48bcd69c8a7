package import Broker
import GRDB
import Synchronization

extension SQLiteStore {
    package func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion {
        let pending = pendingLogins
        return try await writer.write { database in
            let ofToken =
                try database.first(
                    LoginSQL.countPendingOfToken, [row.loginTokenDigest.sql, row.createdAt.sql]
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

    package func pendingLogins(loginTokenDigest: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow] {
        try await readers.read { database in
            try database.rows(
                LoginSQL.pending, [loginTokenDigest.sql, now.sql, RetentionPeriods.pendingLogins.databaseValue]
            ) { try? LoginRow(&$0) }.compactMap { $0 }
        }
    }

    package func burnLogin(state: Digest) async throws(StoreFailure) -> Bool {
        let pending = pendingLogins
        return try await writer.write { database in
            guard let expiresAt = try database.first(LoginSQL.burn, [state.sql], { try $0.time() }) else {
                // The login is gone or taken, or a newer version wrote the row. Reading the row throws in the last case.
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

    /// Subtracts a login that was taken or burned, unless the count excludes the login because it had expired.
    func removed(expiresAt: WallTime) {
        state.withLock { state in
            guard state.countedAt < expiresAt else { return }
            state.count = state.count.map { max($0 - 1, 0) }
        }
    }

    func invalidate() { state.withLock { $0.count = nil } }
}

/// The statements for logins and registrations.
///
/// Keep the column lists and the decoders in `RowDecoders` in step.
enum LoginSQL {
    static let columns =
        "format, state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed"
    static let insert = """
        INSERT INTO logins (state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        """
    static let byState = "SELECT \(columns) FROM logins WHERE state = ?"
    static let pending = """
        SELECT \(columns) FROM logins WHERE login_token = ? AND status = 0 AND expires_at > ?
        ORDER BY created_at DESC LIMIT ?
        """
    static let countPending = "SELECT count(*), min(expires_at) FROM logins WHERE expires_at > ? AND status = 0"
    static let countPendingOfToken = """
        SELECT count(*) FROM logins WHERE login_token = ? AND status = 0 AND expires_at > ?
        """
    static let burn = "UPDATE logins SET status = 2 WHERE state = ? AND status = 0 AND format = 1 RETURNING expires_at"
    static let take = """
        UPDATE logins SET status = 1, exchange = ? WHERE state = ? AND status = 0 AND expires_at > ? AND format = 1
        RETURNING expires_at
        """
    static let giveBack = """
        UPDATE logins SET status = 0, exchange = NULL WHERE state = ? AND status = 1 AND exchange = ? AND format = 1
        RETURNING expires_at
        """
    static let close = "UPDATE logins SET status = 2 WHERE state = ? AND format = 1"
    static let sweep = """
        DELETE FROM logins WHERE id IN (SELECT id FROM logins WHERE expires_at <= ? AND format = 1 LIMIT ?)
        """
}

/// The statements for registrations.
enum RegistrationSQL {
    static let columns =
        "format, key, login_token, created_at, expires_at, status, exchange, attempts, sealed_key, sealed"
    static let insert = """
        INSERT INTO registrations
            (key, login_token, created_at, expires_at, status, exchange, attempts, sealed_key, sealed)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING
        """
    static let byKey = "SELECT \(columns) FROM registrations WHERE key = ?"
    static let take = """
        UPDATE registrations SET status = 1, exchange = ? WHERE key = ? AND status = 0 AND expires_at > ? AND format = 1
        """
    static let giveBack = "UPDATE registrations SET status = 0 WHERE key = ? AND status = 1 AND format = 1"
    static let close = "UPDATE registrations SET status = 2 WHERE key = ? AND format = 1"
    static let resubmit = """
        UPDATE registrations SET status = 0, attempts = 1 WHERE key = ? AND status = 1 AND attempts = 0 AND format = 1
        """
    static let sweep = """
        DELETE FROM registrations
        WHERE id IN (SELECT id FROM registrations WHERE expires_at <= ? AND format = 1 LIMIT ?)
        """
}

/// The statements for handoffs.
enum HandoffSQL {
    static let columns = "format, login, key, created_at, expires_at, kept_until, sealed_key, sealed"
    /// Stores the handoff of a login, which has one live handoff at most.
    ///
    /// Another handoff of the login replaces the stored handoff only after the stored handoff has expired.
    static let keep = """
        INSERT INTO handoffs (login, key, created_at, expires_at, kept_until, sealed_key, sealed)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (login) DO UPDATE SET key = excluded.key, created_at = excluded.created_at,
            expires_at = excluded.expires_at, kept_until = max(kept_until, excluded.kept_until),
            sealed_key = excluded.sealed_key, sealed = excluded.sealed
        WHERE expires_at <= excluded.created_at AND format = 1
        """
    static let byKey = "SELECT \(columns) FROM handoffs WHERE key = ?"
    static let byLogin = "SELECT \(columns) FROM handoffs WHERE login = ?"
    static let keepLonger = "UPDATE handoffs SET kept_until = max(kept_until, ?) WHERE login = ? AND format = 1"
    static let sweep = """
        DELETE FROM handoffs WHERE id IN (SELECT id FROM handoffs WHERE kept_until <= ? AND format = 1 LIMIT ?)
        """
}

extension HandoffRow {
    /// The values of `HandoffSQL.keep`.
    var values: [DatabaseValue] {
        [
            login.sql, key.sql, createdAt.sql, expiresAt.sql, keptUntil.sql, sealed.keyID.databaseValue,
            sealed.envelope.sql,
        ]
    }
}

extension LoginRow {
    /// The values of `LoginSQL.insert`.
    var values: [DatabaseValue] {
        [
            state.sql, loginTokenDigest.sql, loginID.databaseValue, createdAt.sql, expiresAt.sql,
            status.rawValue.databaseValue, exchange.sql, sealed.keyID.databaseValue, sealed.envelope.sql,
        ]
    }
}

extension RegistrationRow {
    /// The values of `RegistrationSQL.insert`.
    var values: [DatabaseValue] {
        [
            key.sql, loginTokenDigest.sql, createdAt.sql, expiresAt.sql, status.rawValue.databaseValue, exchange.sql,
            attempts.databaseValue, sealed.keyID.databaseValue, sealed.envelope.sql,
        ]
    }
}
