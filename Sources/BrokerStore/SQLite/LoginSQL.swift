import Broker
import GRDB

/// The statements of logins and registrations.
///
/// Column lists and the decoders of `RowDecoders` go together.
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

/// The statements of registrations.
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

/// The statements of handoffs.
enum HandoffSQL {
    static let columns = "format, login, key, created_at, expires_at, kept_until, sealed_key, sealed"
    /// One live handoff a login: another takes its place only when it has expired.
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
            state.sql, loginToken.sql, loginID.databaseValue, createdAt.sql, expiresAt.sql,
            status.rawValue.databaseValue, exchange.sql, sealed.keyID.databaseValue, sealed.envelope.sql,
        ]
    }
}

extension RegistrationRow {
    /// The values of `RegistrationSQL.insert`.
    var values: [DatabaseValue] {
        [
            key.sql, loginToken.sql, createdAt.sql, expiresAt.sql, status.rawValue.databaseValue, exchange.sql,
            attempts.databaseValue, sealed.keyID.databaseValue, sealed.envelope.sql,
        ]
    }
}
