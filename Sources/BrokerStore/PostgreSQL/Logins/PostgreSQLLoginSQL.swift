import Broker

/// The statements for logins, handoffs and registrations in PostgreSQL.
///
/// Keep the column lists and the decoders in `RowDecoders` in step.
enum PostgreSQLLoginSQL {
    static let columns =
        "format, state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed"

    /// Locks a login token, so that logins with this token are stored one after the other.
    ///
    /// Each of them then counts all logins before it.
    static let turn = Statement("login_turn", "i", "SELECT pg_advisory_xact_lock($1)")
    static let insert = Statement(
        "insert_login", "bbtiiibtbi",
        """
        INSERT INTO logins (state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
        WHERE (SELECT count(*) FROM logins WHERE login_token = $2 AND status = 0 AND expires_at > $4) < $10
        RETURNING state
        """)
    static let byState = Statement("login", "b", "SELECT \(columns) FROM logins WHERE state = $1")
    static let pending = Statement(
        "pending_logins", "bii",
        """
        SELECT \(columns) FROM logins WHERE login_token = $1 AND status = 0 AND expires_at > $2
        ORDER BY created_at DESC LIMIT $3
        """)
    static let countPending = Statement(
        "count_pending_logins", "ii",
        """
        SELECT count(*), min(expires_at)
        FROM (SELECT expires_at FROM logins WHERE status = 0 AND expires_at > $1 ORDER BY expires_at LIMIT $2) p
        """)
    static let burn = Statement(
        "burn_login", "b",
        """
        WITH burned AS (
            UPDATE logins SET status = 2 WHERE state = $1 AND status = 0 AND format = 1 RETURNING expires_at)
        SELECT coalesce((SELECT format FROM logins WHERE state = $1), 1), (SELECT expires_at FROM burned)
        """)

    static let handoffColumns = "format, login, key, created_at, expires_at, kept_until, sealed_key, sealed"
    static let keepHandoff = Statement(
        "keep_handoff", "bbiiitb",
        """
        INSERT INTO handoffs (login, key, created_at, expires_at, kept_until, sealed_key, sealed)
        VALUES ($1, $2, $3, $4, $5, $6, $7)
        ON CONFLICT (login) DO UPDATE SET key = excluded.key, created_at = excluded.created_at,
            expires_at = excluded.expires_at, kept_until = greatest(handoffs.kept_until, excluded.kept_until),
            sealed_key = excluded.sealed_key, sealed = excluded.sealed
        WHERE handoffs.expires_at <= excluded.created_at AND handoffs.format = 1
        RETURNING key
        """)
    static let handoffByKey = Statement("handoff", "b", "SELECT \(handoffColumns) FROM handoffs WHERE key = $1")
    static let handoffByLogin = Statement(
        "handoff_by_login", "b", "SELECT \(handoffColumns) FROM handoffs WHERE login = $1")

    static let registrationColumns =
        "format, key, login_token, created_at, expires_at, status, exchange, attempts, sealed_key, sealed"
    static let insertRegistration = Statement(
        "insert_registration", "bbiiiitb",
        """
        INSERT INTO registrations (key, login_token, created_at, expires_at, status, attempts, sealed_key, sealed)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (key) DO NOTHING
        """)
    static let registration = Statement(
        "registration", "b", "SELECT \(registrationColumns) FROM registrations WHERE key = $1")
}

extension LoginRow {
    /// The values of `PostgreSQLLoginSQL.insert`, except its limit.
    var parameters: [Parameter] {
        [
            .digest(state), .digest(loginTokenDigest), .text(loginID), .time(createdAt), .time(expiresAt),
            .integer(status.rawValue), .digest(exchange), .text(sealed.keyID), .bytes(sealed.envelope),
        ]
    }
}

extension HandoffRow {
    /// The values of `PostgreSQLLoginSQL.keepHandoff`.
    var parameters: [Parameter] {
        [
            .digest(login), .digest(key), .time(createdAt), .time(expiresAt), .time(keptUntil), .text(sealed.keyID),
            .bytes(sealed.envelope),
        ]
    }
}

extension RegistrationRow {
    /// The values of `PostgreSQLLoginSQL.insertRegistration`.
    ///
    /// A new registration belongs to no exchange yet.
    var parameters: [Parameter] {
        [
            .digest(key), .digest(loginTokenDigest), .time(createdAt), .time(expiresAt), .integer(status.rawValue),
            .integer(attempts), .text(sealed.keyID), .bytes(sealed.envelope),
        ]
    }
}
