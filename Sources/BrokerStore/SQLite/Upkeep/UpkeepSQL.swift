import Broker
import GRDB

/// The statements for the outbox, leases, the audit and sweeping.
enum UpkeepSQL {
    static let outboxColumns = "format, key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts"
    static let addOutbox = NamedSQL(
        """
        INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        VALUES (:key, :bound_to, :tokens_key, :tokens, :created_at, :next_attempt_at, :attempts) ON CONFLICT (key) DO NOTHING
        """)
    static let takeOutbox = NamedSQL(
        """
        UPDATE outbox SET next_attempt_at = :until, attempts = attempts + 1
        WHERE id IN (
            SELECT id FROM outbox WHERE next_attempt_at <= :now AND format = 1 ORDER BY next_attempt_at LIMIT :limit)
        RETURNING \(outboxColumns)
        """)
    static let nothingDue = NamedSQL("SELECT 1 FROM outbox WHERE next_attempt_at <= :now AND format = 1 LIMIT 1")
    /// Finds an outbox row that is postponed for longer than allowed.
    static let putOffTooFar = NamedSQL(
        "SELECT 1 FROM outbox WHERE next_attempt_at > :impossible AND format = 1 LIMIT 1")
    static let recallOutbox = NamedSQL(
        "UPDATE outbox SET next_attempt_at = :now WHERE next_attempt_at > :impossible AND format = 1")
    static let postponeOutbox = NamedSQL(
        """
        UPDATE outbox SET next_attempt_at = :until, attempts = max(attempts - :uncounted, 0) WHERE key = :key AND format = 1
        """)
    static let removeOutbox = NamedSQL("DELETE FROM outbox WHERE key = :key AND format = 1")
    static let countOutbox = NamedSQL("SELECT count(*) FROM outbox")
    static let sweepLogoutTokens = NamedSQL(
        """
        DELETE FROM logout_tokens WHERE id IN (SELECT id FROM logout_tokens WHERE until <= :now AND format = 1 LIMIT :limit)
        """)
    static let acquireLease = NamedSQL(
        """
        INSERT INTO leases (name, owner, until) VALUES (:name, :owner, :until)
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
            WHERE (owner IN ('', excluded.owner) OR until <= :now OR until > :until) AND format = 1
        """)
    /// Clears the owner of a lease.
    ///
    /// The lease's end (`until`) stays.
    static let releaseLease = NamedSQL(
        "UPDATE leases SET owner = '' WHERE name = :name AND owner = :owner AND format = 1")
    static let lease = NamedSQL("SELECT until FROM leases WHERE name = :name AND format = 1")
    static let countSeals = NamedSQL(
        """
        INSERT INTO key_seals (key, seals) VALUES (:key, :seals)
        ON CONFLICT (key) DO UPDATE SET seals = seals + excluded.seals RETURNING seals
        """)
    static let appendAudit = NamedSQL(
        "INSERT INTO audit (at, actor, action, target, outcome) VALUES (:at, :actor, :action, :target, :outcome)")
    static let version = NamedSQL("SELECT max(version) FROM schema_version")

    /// The columns that determine the time and the reason of a session's lapse.
    static let endColumns = "idle_expires_at, expires_at, token_expires_at, refreshable"
    static let lapsed = NamedSQL(
        """
        SELECT id, token, \(endColumns) FROM sessions
        WHERE min(idle_expires_at, expires_at) <= :certain AND ended_at IS NULL AND format = 1 LIMIT :limit
        """)
    static let lapsedSince = NamedSQL(
        """
        SELECT id, token, \(endColumns) FROM sessions
        WHERE min(idle_expires_at, expires_at) <= :now AND min(idle_expires_at, expires_at) > :since AND ended_at IS NULL
            AND format = 1
        LIMIT :limit
        """)
    static let sweepSessions = NamedSQL(
        """
        DELETE FROM sessions WHERE id IN
            (SELECT id FROM sessions WHERE ended_at <= :buried AND ended_at IS NOT NULL AND format = 1 LIMIT :limit)
        """)
    static let sweepLogins = NamedSQL(
        """
        DELETE FROM logins WHERE id IN (SELECT id FROM logins WHERE expires_at <= :spent AND format = 1 LIMIT :limit)
        """)
    static let sweepRegistrations = NamedSQL(
        """
        DELETE FROM registrations
        WHERE id IN (SELECT id FROM registrations WHERE expires_at <= :spent AND format = 1 LIMIT :limit)
        """)
    static let sweepHandoffs = NamedSQL(
        """
        DELETE FROM handoffs WHERE id IN (SELECT id FROM handoffs WHERE kept_until <= :now AND format = 1 LIMIT :limit)
        """)
    static let sweepExchanges = NamedSQL(
        """
        DELETE FROM exchanges WHERE key IN (
            SELECT key FROM exchanges WHERE created_at <= :spent AND kept_until IS NULL AND format = 1 LIMIT :limit)
        """)
}

extension OutboxRow {
    /// The values of `UpkeepSQL.addOutbox`.
    var values: Named<DatabaseValue> {
        [
            "key": id.sql, "bound_to": boundTo.sql, "tokens_key": tokens.keyID.databaseValue,
            "tokens": tokens.envelope.sql, "created_at": createdAt.sql, "next_attempt_at": nextAttemptAt.sql,
            "attempts": attempts.databaseValue,
        ]
    }
}

extension AuditRow {
    /// The values of `UpkeepSQL.appendAudit`.
    var values: Named<DatabaseValue> {
        [
            "at": at.sql, "actor": actor.databaseValue, "action": action.databaseValue, "target": target.databaseValue,
            "outcome": outcome.databaseValue,
        ]
    }
}
