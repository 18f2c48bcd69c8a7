import Broker

/// The statements for sessions' tokens for other APIs in PostgreSQL.
///
/// A statement that writes such a row locks the session's state first, and so does the statement whose trigger deletes the
/// rows. All other statements touch only one row.
enum PostgreSQLTargetTokenSQL {
    // A trigger deletes a session's rows when the session ends, and when a step-up begins another grant. So the rows are
    // deleted even by the statements of an older release that lacks this table. The trigger runs under the lock on the
    // session's state and sees the current rows.
    static let migration = """
        CREATE TABLE audience_tokens (
            key bytea NOT NULL PRIMARY KEY CHECK (octet_length(key) = 32),
            session bytea NOT NULL CHECK (octet_length(session) = 32),
            version bigint NOT NULL CHECK (version >= 0),
            stored_at bigint NOT NULL,
            used_at bigint NOT NULL,
            sealed_key text NOT NULL,
            sealed bytea NOT NULL,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        ) WITH (fillfactor = 80);
        CREATE INDEX audience_tokens_by_session ON audience_tokens (session);
        ALTER TABLE audience_tokens ALTER COLUMN sealed SET STORAGE EXTERNAL;
        CREATE FUNCTION audience_tokens_end_with_their_session() RETURNS trigger LANGUAGE plpgsql AS '
            BEGIN
                DELETE FROM audience_tokens WHERE session = OLD.token;
                RETURN NULL;
            END';
        CREATE TRIGGER audience_tokens_end_with_their_session AFTER UPDATE OF ended, grant_version ON session_states
            FOR EACH ROW WHEN ((NEW.ended AND NOT OLD.ended) OR NEW.grant_version <> OLD.grant_version)
            EXECUTE FUNCTION audience_tokens_end_with_their_session();
        CREATE TRIGGER audience_tokens_go_with_their_session AFTER DELETE ON session_states
            FOR EACH ROW WHEN (NOT OLD.ended)
            EXECUTE FUNCTION audience_tokens_end_with_their_session();
        """

    /// The parameters of the steps that store a row.
    static let storing: Named<ParameterType> = [
        "key": .bytes, "version": .integer, "stored_at": .integer, "used_at": .integer, "sealed_key": .text,
        "sealed": .bytes,
    ]
    private static let stored = "key, session, version, stored_at, used_at, sealed_key, sealed"

    static let byKey = Statement(
        "audience", ["key": .bytes, "session": .bytes],
        """
        SELECT \(TargetTokenRow.columns) FROM audience_tokens
        WHERE key = :key AND session = :session
            AND EXISTS (SELECT FROM session_states st WHERE st.token = :session AND NOT st.subject_unchecked AND NOT st.ended)
        """)
    static let use = Statement(
        "use_audience", ["key": .bytes, "used_at": .integer],
        "UPDATE audience_tokens SET used_at = :used_at WHERE key = :key AND used_at < :used_at AND format = 1")
    static let insert = Statement(
        "admin_insert_audience", storing + ["session": .bytes],
        """
        INSERT INTO audience_tokens (\(stored))
        VALUES (:key, :session, :version, :stored_at, :used_at, :sealed_key, :sealed) ON CONFLICT DO NOTHING
        """)

    /// Stores an exchanged token and releases its claim.
    ///
    /// The rows are locked in the same order as for endings, and read in their current state.
    static let keep = Statement(
        "keep_audience", storing + ["session": .bytes, "token_version": .integer, "tokens": .bytes],
        """
        WITH held AS MATERIALIZED (
            SELECT st.token FROM session_states st JOIN sessions s ON s.token = st.token
            WHERE st.token = :session AND st.token_version = :token_version AND st.fence = :version
                AND st.claim_until IS NOT NULL
                AND NOT st.ended AND st.format = 1 AND (s.tokens = :tokens) IS NOT FALSE
            FOR UPDATE OF st, s),
        released AS (
            UPDATE session_states st SET claim = NULL, claim_until = NULL, hold_until = NULL
            FROM held h WHERE st.token = h.token),
        \(storing(from: "held"))
        SELECT count(*) FROM held
        """)

    /// The steps that store a row for the session of `step (token)`, and delete the tokens unused for longest if the session
    /// then has too many.
    static func storing(from step: String) -> String {
        """
        stored AS (
            INSERT INTO audience_tokens (\(stored))
            SELECT :key, h.token, :version, :stored_at, :used_at, :sealed_key, :sealed
            FROM \(step) h
            ON CONFLICT (key) DO UPDATE SET version = excluded.version, stored_at = excluded.stored_at,
                used_at = excluded.used_at, sealed_key = excluded.sealed_key, sealed = excluded.sealed
                WHERE audience_tokens.version < excluded.version AND audience_tokens.format = 1),
        evicted AS (
            DELETE FROM audience_tokens WHERE key = ANY (ARRAY (
                SELECT a.key FROM audience_tokens a
                WHERE a.session = (SELECT h.token FROM \(step) h) AND a.key <> :key
                ORDER BY a.used_at DESC OFFSET \(TargetTokenRow.perSession - 1))))
        """
    }
}

extension TargetTokenRow {
    /// The values of `PostgreSQLTargetTokenSQL.storing`.
    var storedParameters: Named<Parameter> {
        [
            "key": .digest(key), "version": .integer(version), "stored_at": .time(storedAt), "used_at": .time(usedAt),
            "sealed_key": .text(tokens.keyID), "sealed": .bytes(tokens.envelope),
        ]
    }

    /// The values of `PostgreSQLTargetTokenSQL.insert`.
    var parameters: Named<Parameter> { storedParameters + ["session": .digest(session)] }
}
