/// The statements for step-ups and presence keys in PostgreSQL.
enum PostgreSQLStepUpSQL {
    /// Waits for transactions that change the session, so that the next statement sees their changes.
    static let hold = Statement(
        "hold_session", ["token": .bytes], "SELECT FROM session_states WHERE token = :token FOR UPDATE")
    /// Settles an exchange with a step-up.
    ///
    /// `is_new_grant` is 1 if the step-up begins a new grant, and otherwise 0.
    static let stepUp = Statement(
        "step_up",
        [
            "exchange": .bytes, "exchange_fence": .integer, "token": .bytes, "now": .integer, "token_version": .integer,
            "is_new_grant": .integer, "tokens_key": .text, "tokens": .bytes, "facts_key": .text, "facts": .bytes,
            "sid": .bytes, "token_expires_at": .integer, "refreshable": .truth, "idle_expires_at": .integer,
        ] + PostgreSQLUpkeepSQL.outbox + ["version": .integer],
        """
        WITH owned AS MATERIALIZED (
            SELECT key FROM exchanges
            WHERE key = :exchange AND fence = :exchange_fence AND outcome = 0 AND format = 1 FOR UPDATE),
        held AS MATERIALIZED (
            SELECT token, token_version, version, format, ended AS is_over
            FROM session_states WHERE token = :token FOR UPDATE),
        won AS MATERIALIZED (
            SELECT h.token FROM held h, owned
            WHERE NOT h.is_over AND h.token_version = :token_version AND h.version = :version AND h.format = 1),
        settled AS (
            UPDATE exchanges e SET outcome = 2, outcome_digest = w.token FROM won w WHERE e.key = :exchange),
        moved AS (
            UPDATE session_states st SET version = st.version + 1, token_version = st.token_version + :is_new_grant,
                fence = st.fence + :is_new_grant,
                grant_version = CASE :is_new_grant WHEN 1 THEN st.token_version + 1 ELSE st.grant_version END,
                claim = CASE :is_new_grant WHEN 1 THEN NULL ELSE st.claim END,
                claim_until = CASE :is_new_grant WHEN 1 THEN NULL ELSE st.claim_until END,
                taken_over_at = CASE :is_new_grant WHEN 1 THEN NULL ELSE st.taken_over_at END,
                taken_over_before = :is_new_grant <> 1 AND st.taken_over_before,
                answer_lost = :is_new_grant <> 1 AND st.answer_lost,
                hold_until = CASE :is_new_grant WHEN 1 THEN NULL ELSE st.hold_until END,
                empty_refusals = CASE :is_new_grant WHEN 1 THEN 0 ELSE st.empty_refusals END,
                first_empty_at = CASE :is_new_grant WHEN 1 THEN NULL ELSE st.first_empty_at END,
                subject_unchecked = :is_new_grant <> 1 AND st.subject_unchecked,
                token_expires_at = :token_expires_at, refreshable = :refreshable,
                last_used_at = greatest(st.last_used_at, :now),
                idle_expires_at = greatest(st.idle_expires_at, :idle_expires_at)
            FROM won w WHERE st.token = w.token),
        kept AS (
            UPDATE sessions s SET tokens_key = :tokens_key, tokens = :tokens,
                facts_key = :facts_key, facts = :facts, sid = :sid
            FROM won w WHERE s.token = w.token),
        dropped AS (DELETE FROM audience_tokens a USING won w WHERE a.session = w.token AND :is_new_grant <> 1),
        revoked AS (
            INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
            SELECT o.* FROM won, \(PostgreSQLUpkeepSQL.outboxRows) o ON CONFLICT (key) DO NOTHING)
        SELECT coalesce(h.format, 1), (SELECT count(*) FROM owned) = 1, coalesce(h.is_over, true), w.token IS NOT NULL
        FROM (SELECT 1) one LEFT JOIN held h ON true LEFT JOIN won w ON true
        """)
    /// Stores a presence key if the session has none.
    ///
    /// The rows are locked in the same order as for endings, and read in their current state.
    static let registerPresence = Statement(
        "register_presence",
        [
            "token": .bytes, "presence_key": .text, "presence": .bytes, "at": .integer, "actor": .text, "action": .text,
            "target": .text, "outcome": .text,
        ],
        """
        WITH held AS MATERIALIZED (
            SELECT st.token, greatest(s.format, st.format) AS format,
                st.ended OR s.end_reason IS NOT NULL OR s.parent IS NOT NULL AS is_over, s.presence_key, s.presence
            FROM session_states st JOIN sessions s ON s.token = st.token WHERE st.token = :token FOR UPDATE OF st, s),
        kept AS (
            UPDATE sessions s SET presence_key = :presence_key, presence = :presence
            FROM held h WHERE s.token = h.token AND NOT h.is_over AND h.presence IS NULL AND h.format = 1
            RETURNING s.token),
        changed AS (UPDATE session_states st SET version = st.version + 1 FROM kept k WHERE st.token = k.token),
        noted AS (INSERT INTO audit (at, actor, action, target, outcome) SELECT :at, :actor, :action, :target, :outcome
            FROM kept)
        SELECT k.token IS NOT NULL, h.format, h.is_over, h.presence_key, h.presence
        FROM held h LEFT JOIN kept k ON true
        """)
}
