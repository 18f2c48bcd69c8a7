import Broker
import GRDB

/// The statements for handoffs.
enum HandoffSQL {
    static let columns = "format, login, key, created_at, expires_at, kept_until, sealed_key, sealed"
    /// Stores the handoff of a login, which has one live handoff at most.
    ///
    /// Another handoff of the login replaces the stored handoff only after the stored handoff has expired.
    static let keep = NamedSQL(
        """
        INSERT INTO handoffs (login, key, created_at, expires_at, kept_until, sealed_key, sealed)
        VALUES (:login, :key, :created_at, :expires_at, :kept_until, :sealed_key, :sealed)
        ON CONFLICT (login) DO UPDATE SET key = excluded.key, created_at = excluded.created_at,
            expires_at = excluded.expires_at, kept_until = max(kept_until, excluded.kept_until),
            sealed_key = excluded.sealed_key, sealed = excluded.sealed
        WHERE expires_at <= excluded.created_at AND format = 1
        """)
    static let byKey = NamedSQL("SELECT \(columns) FROM handoffs WHERE key = :key")
    static let byLogin = NamedSQL("SELECT \(columns) FROM handoffs WHERE login = :login")
    static let keepLonger = NamedSQL(
        "UPDATE handoffs SET kept_until = max(kept_until, :kept_until) WHERE login = :login AND format = 1")
}

extension HandoffRow {
    /// The values of `HandoffSQL.keep`.
    var values: Named<DatabaseValue> {
        [
            "login": login.sql, "key": key.sql, "created_at": createdAt.sql, "expires_at": expiresAt.sql,
            "kept_until": keptUntil.sql, "sealed_key": sealed.keyID.databaseValue, "sealed": sealed.envelope.sql,
        ]
    }
}
