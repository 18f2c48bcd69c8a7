import Broker
import GRDB

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
