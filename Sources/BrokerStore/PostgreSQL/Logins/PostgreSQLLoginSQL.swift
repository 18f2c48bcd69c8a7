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
    static let turn = Statement("login_turn", ["turn": .integer], "SELECT pg_advisory_xact_lock(:turn)")
    static let insert = Statement(
        "insert_login",
        [
            "state": .bytes, "login_token": .bytes, "login_id": .text, "created_at": .integer, "expires_at": .integer,
            "status": .integer, "exchange": .bytes, "sealed_key": .text, "sealed": .bytes, "limit": .integer,
        ],
        """
        INSERT INTO logins (state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed)
        SELECT :state, :login_token, :login_id, :created_at, :expires_at, :status, :exchange, :sealed_key, :sealed
        WHERE (SELECT count(*) FROM logins WHERE login_token = :login_token AND status = 0
            AND expires_at > :created_at) < :limit
        RETURNING state
        """)
    static let byState = Statement("login", ["state": .bytes], "SELECT \(columns) FROM logins WHERE state = :state")
    static let pending = Statement(
        "pending_logins", ["login_token": .bytes, "now": .integer, "limit": .integer],
        """
        SELECT \(columns) FROM logins WHERE login_token = :login_token AND status = 0 AND expires_at > :now
        ORDER BY created_at DESC LIMIT :limit
        """)
    static let countPending = Statement(
        "count_pending_logins", ["now": .integer, "limit": .integer],
        """
        SELECT count(*), min(expires_at)
        FROM (SELECT expires_at FROM logins WHERE status = 0 AND expires_at > :now ORDER BY expires_at LIMIT :limit) p
        """)
    static let burn = Statement(
        "burn_login", ["state": .bytes],
        """
        WITH burned AS (
            UPDATE logins SET status = 2 WHERE state = :state AND status = 0 AND format = 1 RETURNING expires_at)
        SELECT coalesce((SELECT format FROM logins WHERE state = :state), 1), (SELECT expires_at FROM burned)
        """)

    static let handoffColumns = "format, login, key, created_at, expires_at, kept_until, sealed_key, sealed"
    static let keepHandoff = Statement(
        "keep_handoff",
        [
            "login": .bytes, "key": .bytes, "created_at": .integer, "expires_at": .integer, "kept_until": .integer,
            "sealed_key": .text, "sealed": .bytes,
        ],
        """
        INSERT INTO handoffs (login, key, created_at, expires_at, kept_until, sealed_key, sealed)
        VALUES (:login, :key, :created_at, :expires_at, :kept_until, :sealed_key, :sealed)
        ON CONFLICT (login) DO UPDATE SET key = excluded.key, created_at = excluded.created_at,
            expires_at = excluded.expires_at, kept_until = greatest(handoffs.kept_until, excluded.kept_until),
            sealed_key = excluded.sealed_key, sealed = excluded.sealed
        WHERE handoffs.expires_at <= excluded.created_at AND handoffs.format = 1
        RETURNING key
        """)
    static let handoffByKey = Statement(
        "handoff", ["key": .bytes], "SELECT \(handoffColumns) FROM handoffs WHERE key = :key")
    static let handoffByLogin = Statement(
        "handoff_by_login", ["login": .bytes], "SELECT \(handoffColumns) FROM handoffs WHERE login = :login")

    static let registrationColumns =
        "format, key, login_token, created_at, expires_at, status, exchange, attempts, sealed_key, sealed"
    static let insertRegistration = Statement(
        "insert_registration",
        [
            "key": .bytes, "login_token": .bytes, "created_at": .integer, "expires_at": .integer, "status": .integer,
            "attempts": .integer, "sealed_key": .text, "sealed": .bytes,
        ],
        """
        INSERT INTO registrations (key, login_token, created_at, expires_at, status, attempts, sealed_key, sealed)
        VALUES (:key, :login_token, :created_at, :expires_at, :status, :attempts, :sealed_key, :sealed)
            ON CONFLICT (key) DO NOTHING
        """)
    static let registration = Statement(
        "registration", ["key": .bytes], "SELECT \(registrationColumns) FROM registrations WHERE key = :key")
}

extension LoginRow {
    /// The values of `PostgreSQLLoginSQL.insert`, except its limit.
    var parameters: Named<Parameter> {
        [
            "state": .digest(state), "login_token": .digest(loginTokenDigest), "login_id": .text(loginID),
            "created_at": .time(createdAt), "expires_at": .time(expiresAt), "status": .integer(status.rawValue),
            "exchange": .digest(exchange), "sealed_key": .text(sealed.keyID), "sealed": .bytes(sealed.envelope),
        ]
    }
}

extension HandoffRow {
    /// The values of `PostgreSQLLoginSQL.keepHandoff`.
    var parameters: Named<Parameter> {
        [
            "login": .digest(login), "key": .digest(key), "created_at": .time(createdAt),
            "expires_at": .time(expiresAt),
            "kept_until": .time(keptUntil), "sealed_key": .text(sealed.keyID), "sealed": .bytes(sealed.envelope),
        ]
    }
}

extension RegistrationRow {
    /// The values of `PostgreSQLLoginSQL.insertRegistration`.
    ///
    /// A new registration belongs to no exchange yet.
    var parameters: Named<Parameter> { Self.parameters(self) }

    /// The values of a registration; NULL if there is none.
    static func parameters(_ row: RegistrationRow?) -> Named<Parameter> {
        [
            "key": .digest(row?.key), "login_token": .digest(row?.loginTokenDigest),
            "created_at": .time(row?.createdAt),
            "expires_at": .time(row?.expiresAt), "status": .integer(row?.status.rawValue),
            "attempts": .integer(row?.attempts), "sealed_key": .text(row?.sealed.keyID),
            "sealed": .bytes(row?.sealed.envelope),
        ]
    }
}
