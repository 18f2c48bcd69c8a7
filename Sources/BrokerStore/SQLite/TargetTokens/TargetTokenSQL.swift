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

    static let byKey = NamedSQL(
        """
        SELECT \(TargetTokenRow.columns) FROM audience_tokens
        WHERE key = :key AND session = :session
            AND EXISTS (SELECT 1 FROM sessions WHERE token = :session AND subject_unchecked = 0 AND ended_at IS NULL)
        """)
    /// Stores a row, unless a newer one exists.
    static let store = NamedSQL(
        """
        INSERT INTO audience_tokens (key, session, version, stored_at, used_at, sealed_key, sealed)
        VALUES (:key, :session, :version, :stored_at, :used_at, :sealed_key, :sealed)
        ON CONFLICT (key) DO UPDATE SET version = excluded.version, stored_at = excluded.stored_at,
            used_at = excluded.used_at, sealed_key = excluded.sealed_key, sealed = excluded.sealed
            WHERE version < excluded.version AND format = 1
        """)
    static let insert = NamedSQL(
        """
        INSERT INTO audience_tokens (key, session, version, stored_at, used_at, sealed_key, sealed)
        VALUES (:key, :session, :version, :stored_at, :used_at, :sealed_key, :sealed) ON CONFLICT DO NOTHING
        """)
    /// Deletes the session's longest unused tokens, if the session has more tokens than it may have in addition to the token
    /// `key`.
    static let evict = NamedSQL(
        """
        DELETE FROM audience_tokens WHERE id IN (
            SELECT id FROM audience_tokens WHERE session = :session AND key <> :key
            ORDER BY used_at DESC LIMIT -1 OFFSET :others)
        """)
    static let use = NamedSQL(
        "UPDATE audience_tokens SET used_at = :used_at WHERE key = :key AND used_at < :used_at AND format = 1")
    /// Releases a claim if the session's fence, token version and, unless `tokens` is null, tokens are unchanged.
    static let giveBack = NamedSQL(
        """
        UPDATE sessions SET claim = NULL, claim_until = NULL, hold_until = NULL, hold_for = NULL
        WHERE token = :session AND token_version = :token_version AND fence = :fence AND claim_until IS NOT NULL
            AND ended_at IS NULL AND format = 1 AND (:tokens IS NULL OR tokens = :tokens)
        """)
}

extension TargetTokenRow {
    /// The values of `TargetTokenSQL.store`.
    var values: Named<DatabaseValue> {
        [
            "key": key.sql, "session": session.sql, "version": version.databaseValue, "stored_at": storedAt.sql,
            "used_at": usedAt.sql, "sealed_key": tokens.keyID.databaseValue, "sealed": tokens.envelope.sql,
        ]
    }
}
