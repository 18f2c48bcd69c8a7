import Broker
import GRDB

/// The statements for logins.
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
