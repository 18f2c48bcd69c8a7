import Broker
import GRDB

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
