import Broker
import GRDB

/// The statements for sessions' tokens for other APIs in SQLite.
///
/// Triggers delete a session's rows when the session ends, and when a step-up begins another grant. The triggers also act on
/// the statements of an older release that lacks this table.
enum TargetTokenSQL {
    static let migration = """
        CREATE TABLE audience_tokens (
            id INTEGER PRIMARY KEY,
            key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
            session BLOB NOT NULL CHECK (length(session) = 32),
            version INTEGER NOT NULL CHECK (version >= 0),
            stored_at INTEGER NOT NULL,
            used_at INTEGER NOT NULL,
            sealed_key TEXT NOT NULL,
            sealed BLOB NOT NULL,
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0)
        ) STRICT;
        CREATE INDEX audience_tokens_by_session ON audience_tokens (session, used_at);
        CREATE TRIGGER audience_tokens_end_with_their_session AFTER UPDATE OF ended_at ON sessions
        WHEN OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL BEGIN
            DELETE FROM audience_tokens WHERE session = NEW.token;
        END;
        CREATE TRIGGER audience_tokens_end_with_their_grant AFTER UPDATE OF grant_version ON sessions
        WHEN NEW.grant_version <> OLD.grant_version BEGIN
            DELETE FROM audience_tokens WHERE session = NEW.token;
        END;
        CREATE TRIGGER audience_tokens_go_with_their_session AFTER DELETE ON sessions
        WHEN OLD.ended_at IS NULL BEGIN
            DELETE FROM audience_tokens WHERE session = OLD.token;
        END;
        """

    static let byKey = """
        SELECT \(TargetTokenRow.columns) FROM audience_tokens
        WHERE key = ?1 AND session = ?2
            AND EXISTS (SELECT 1 FROM sessions WHERE token = ?2 AND subject_unchecked = 0 AND ended_at IS NULL)
        """
    /// Stores a row, unless a newer one exists.
    static let store = """
        INSERT INTO audience_tokens (key, session, version, stored_at, used_at, sealed_key, sealed)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (key) DO UPDATE SET version = excluded.version, stored_at = excluded.stored_at,
            used_at = excluded.used_at, sealed_key = excluded.sealed_key, sealed = excluded.sealed
            WHERE version < excluded.version AND format = 1
        """
    static let insert = """
        INSERT INTO audience_tokens (key, session, version, stored_at, used_at, sealed_key, sealed)
        VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
        """
    /// Deletes the session's longest unused tokens, if the session has more tokens than it may have in addition to the token
    /// with key `?2`.
    static let evict = """
        DELETE FROM audience_tokens WHERE id IN (
            SELECT id FROM audience_tokens WHERE session = ?1 AND key <> ?2 ORDER BY used_at DESC LIMIT -1 OFFSET ?3)
        """
    static let use = "UPDATE audience_tokens SET used_at = ?1 WHERE key = ?2 AND used_at < ?1 AND format = 1"
    /// Releases a claim if the session's fence, token version and, unless `?4` is null, tokens are unchanged.
    static let giveBack = """
        UPDATE sessions SET claim = NULL, claim_until = NULL, hold_until = NULL, hold_for = NULL
        WHERE token = ?1 AND token_version = ?2 AND fence = ?3 AND claim_until IS NOT NULL AND ended_at IS NULL AND format = 1
            AND (?4 IS NULL OR tokens = ?4)
        """
}

extension TargetTokenRow {
    /// The values of `TargetTokenSQL.store`.
    var values: [DatabaseValue] {
        [
            key.sql, session.sql, version.databaseValue, storedAt.sql, usedAt.sql, tokens.keyID.databaseValue,
            tokens.envelope.sql,
        ]
    }
}
