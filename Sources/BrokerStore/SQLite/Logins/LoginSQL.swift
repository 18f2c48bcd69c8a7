import Broker
import GRDB

/// The statements for logins.
///
/// Keep the column lists and the decoders in `RowDecoders` in step.
enum LoginSQL {
    static let columns =
        "format, state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed"
    static let insert = NamedSQL(
        """
        INSERT INTO logins (state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed)
        VALUES (:state, :login_token, :login_id, :created_at, :expires_at, :status, :exchange, :sealed_key, :sealed)
        """)
    static let byState = NamedSQL("SELECT \(columns) FROM logins WHERE state = :state")
    static let pending = NamedSQL(
        """
        SELECT \(columns) FROM logins WHERE login_token = :login_token AND status = 0 AND expires_at > :now
        ORDER BY created_at DESC LIMIT :limit
        """)
    static let countPending = NamedSQL(
        "SELECT count(*), min(expires_at) FROM logins WHERE expires_at > :now AND status = 0")
    static let countPendingOfToken = NamedSQL(
        """
        SELECT count(*) FROM logins WHERE login_token = :login_token AND status = 0 AND expires_at > :now
        """)
    static let burn = NamedSQL(
        "UPDATE logins SET status = 2 WHERE state = :state AND status = 0 AND format = 1 RETURNING expires_at")
    static let take = NamedSQL(
        """
        UPDATE logins SET status = 1, exchange = :exchange WHERE state = :state AND status = 0 AND expires_at > :now
            AND format = 1
        RETURNING expires_at
        """)
    static let giveBack = NamedSQL(
        """
        UPDATE logins SET status = 0, exchange = NULL WHERE state = :state AND status = 1 AND exchange = :exchange
            AND format = 1
        RETURNING expires_at
        """)
    static let close = NamedSQL("UPDATE logins SET status = 2 WHERE state = :state AND format = 1")
}

extension LoginRow {
    /// The values of `LoginSQL.insert`.
    var values: Named<DatabaseValue> {
        [
            "state": state.sql, "login_token": loginTokenDigest.sql, "login_id": loginID.databaseValue,
            "created_at": createdAt.sql, "expires_at": expiresAt.sql, "status": status.rawValue.databaseValue,
            "exchange": exchange.sql, "sealed_key": sealed.keyID.databaseValue, "sealed": sealed.envelope.sql,
        ]
    }
}
