import Broker
import GRDB

/// The statements of the outbox, logout tokens, leases and the audit.
enum MaintenanceSQL {
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
    /// Work that was put off for longer than any work is.
    static let putOffTooFar = "SELECT 1 FROM outbox WHERE next_attempt_at > ? AND format = 1 LIMIT 1"
    static let recallOutbox = "UPDATE outbox SET next_attempt_at = ? WHERE next_attempt_at > ? AND format = 1"
    static let postponeOutbox = """
        UPDATE outbox SET next_attempt_at = ?1, attempts = max(attempts - ?2, 0) WHERE key = ?3 AND format = 1
        """
    static let removeOutbox = "DELETE FROM outbox WHERE key = ? AND format = 1"
    static let countOutbox = "SELECT count(*) FROM outbox"
    static let knownLogoutToken = "SELECT 1 FROM logout_tokens WHERE id = ?1 AND (until > ?2 OR format > 1)"
    static let rememberLogoutToken = """
        INSERT INTO logout_tokens (id, until) VALUES (?1, ?2)
        ON CONFLICT (id) DO UPDATE SET until = excluded.until WHERE until <= ?3 AND format = 1
        """
    static let sweepLogoutTokens = """
        DELETE FROM logout_tokens WHERE id IN (SELECT id FROM logout_tokens WHERE until <= ? AND format = 1 LIMIT ?)
        """
    static let acquireLease = """
        INSERT INTO leases (name, owner, until) VALUES (?1, ?2, ?3)
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
            WHERE (owner IN ('', excluded.owner) OR until <= ?4 OR until > ?3) AND format = 1
        """
    /// Nobody's, until when it was taken.
    static let releaseLease = "UPDATE leases SET owner = '' WHERE name = ? AND owner = ? AND format = 1"
    static let lease = "SELECT until FROM leases WHERE name = ? AND format = 1"
    static let countSeals = """
        INSERT INTO key_seals (key, seals) VALUES (?1, ?2)
        ON CONFLICT (key) DO UPDATE SET seals = seals + excluded.seals RETURNING seals
        """
    static let appendAudit = "INSERT INTO audit (at, actor, action, target, outcome) VALUES (?, ?, ?, ?, ?)"
    static let version = "SELECT max(version) FROM schema_version"
}

extension OutboxRow {
    /// The values of `MaintenanceSQL.addOutbox`.
    var values: [DatabaseValue] {
        [
            id.sql, boundTo.sql, tokens.keyID.databaseValue, tokens.envelope.sql, createdAt.sql, nextAttemptAt.sql,
            attempts.databaseValue,
        ]
    }
}
