import Broker
import GRDB

/// The statements for registrations.
enum RegistrationSQL {
    static let columns =
        "format, key, login_token, created_at, expires_at, status, exchange, attempts, sealed_key, sealed"
    static let insert = NamedSQL(
        """
        INSERT INTO registrations
            (key, login_token, created_at, expires_at, status, exchange, attempts, sealed_key, sealed)
        VALUES (:key, :login_token, :created_at, :expires_at, :status, :exchange, :attempts, :sealed_key, :sealed)
            ON CONFLICT (key) DO NOTHING
        """)
    static let byKey = NamedSQL("SELECT \(columns) FROM registrations WHERE key = :key")
    static let take = NamedSQL(
        """
        UPDATE registrations SET status = 1, exchange = :exchange WHERE key = :key AND status = 0 AND expires_at > :now
            AND format = 1
        """)
    static let giveBack = NamedSQL("UPDATE registrations SET status = 0 WHERE key = :key AND status = 1 AND format = 1")
    static let close = NamedSQL("UPDATE registrations SET status = 2 WHERE key = :key AND format = 1")
    static let resubmit = NamedSQL(
        """
        UPDATE registrations SET status = 0, attempts = 1 WHERE key = :key AND status = 1 AND attempts = 0 AND format = 1
        """)
}

extension RegistrationRow {
    /// The values of `RegistrationSQL.insert`.
    var values: Named<DatabaseValue> {
        [
            "key": key.sql, "login_token": loginTokenDigest.sql, "created_at": createdAt.sql,
            "expires_at": expiresAt.sql, "status": status.rawValue.databaseValue, "exchange": exchange.sql,
            "attempts": attempts.databaseValue, "sealed_key": sealed.keyID.databaseValue,
            "sealed": sealed.envelope.sql,
        ]
    }
}
