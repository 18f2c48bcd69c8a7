import Broker
import GRDB

/// The statements for the outbox, leases, the audit and sweeping.
enum UpkeepSQL {
    static let outboxColumns = "format, key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts"
    static let addOutbox = """
        INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING
        """
    static let takeOutbox = """
        UPDATE outbox SET next_attempt_at = ?2, attempts = attempts + 1
        WHERE id IN (
            SELECT id FROM outbox WHERE next_attempt_at <= ?1 AND format = 1 ORDER BY next_attempt_at LIMIT ?3)
        RETURNING \(outboxColumns)
        """
    static let nothingDue = "SELECT 1 FROM outbox WHERE next_attempt_at <= ? AND format = 1 LIMIT 1"
    /// Finds an outbox row that is postponed for longer than allowed.
    static let putOffTooFar = "SELECT 1 FROM outbox WHERE next_attempt_at > ? AND format = 1 LIMIT 1"
    static let recallOutbox = "UPDATE outbox SET next_attempt_at = ? WHERE next_attempt_at > ? AND format = 1"
    static let postponeOutbox = """
        UPDATE outbox SET next_attempt_at = ?1, attempts = max(attempts - ?2, 0) WHERE key = ?3 AND format = 1
        """
    static let removeOutbox = "DELETE FROM outbox WHERE key = ? AND format = 1"
    static let countOutbox = "SELECT count(*) FROM outbox"
    static let sweepLogoutTokens = """
        DELETE FROM logout_tokens WHERE id IN (SELECT id FROM logout_tokens WHERE until <= ? AND format = 1 LIMIT ?)
        """
    static let acquireLease = """
        INSERT INTO leases (name, owner, until) VALUES (?1, ?2, ?3)
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
            WHERE (owner IN ('', excluded.owner) OR until <= ?4 OR until > ?3) AND format = 1
        """
    /// Clears the owner of a lease.
    ///
    /// The lease's end (`until`) stays.
    static let releaseLease = "UPDATE leases SET owner = '' WHERE name = ? AND owner = ? AND format = 1"
    static let lease = "SELECT until FROM leases WHERE name = ? AND format = 1"
    static let countSeals = """
        INSERT INTO key_seals (key, seals) VALUES (?1, ?2)
        ON CONFLICT (key) DO UPDATE SET seals = seals + excluded.seals RETURNING seals
        """
    static let appendAudit = "INSERT INTO audit (at, actor, action, target, outcome) VALUES (?, ?, ?, ?, ?)"
    static let version = "SELECT max(version) FROM schema_version"

    /// The columns that determine the time and the reason of a session's lapse.
    static let endColumns = "idle_expires_at, expires_at, token_expires_at, refreshable"
    static let lapsed = """
        SELECT id, token, \(endColumns) FROM sessions
        WHERE min(idle_expires_at, expires_at) <= ? AND ended_at IS NULL AND format = 1 LIMIT ?
        """
    static let lapsedSince = """
        SELECT id, token, \(endColumns) FROM sessions
        WHERE min(idle_expires_at, expires_at) <= ? AND min(idle_expires_at, expires_at) > ? AND ended_at IS NULL
            AND format = 1
        LIMIT ?
        """
    static let sweepSessions = """
        DELETE FROM sessions WHERE id IN
            (SELECT id FROM sessions WHERE ended_at <= ? AND ended_at IS NOT NULL AND format = 1 LIMIT ?)
        """
    static let sweepLogins = """
        DELETE FROM logins WHERE id IN (SELECT id FROM logins WHERE expires_at <= ? AND format = 1 LIMIT ?)
        """
    static let sweepRegistrations = """
        DELETE FROM registrations
        WHERE id IN (SELECT id FROM registrations WHERE expires_at <= ? AND format = 1 LIMIT ?)
        """
    static let sweepHandoffs = """
        DELETE FROM handoffs WHERE id IN (SELECT id FROM handoffs WHERE kept_until <= ? AND format = 1 LIMIT ?)
        """
    static let sweepExchanges = """
        DELETE FROM exchanges WHERE key IN (SELECT key FROM exchanges WHERE created_at <= ? AND format = 1 LIMIT ?)
        """
}

extension OutboxRow {
    /// The values of `UpkeepSQL.addOutbox`.
    var values: [DatabaseValue] {
        [
            id.sql, boundTo.sql, tokens.keyID.databaseValue, tokens.envelope.sql, createdAt.sql, nextAttemptAt.sql,
            attempts.databaseValue,
        ]
    }
}

extension AuditRow {
    /// The values of `UpkeepSQL.appendAudit`.
    var values: [DatabaseValue] {
        [at.sql, actor.databaseValue, action.databaseValue, target.databaseValue, outcome.databaseValue]
    }
}
