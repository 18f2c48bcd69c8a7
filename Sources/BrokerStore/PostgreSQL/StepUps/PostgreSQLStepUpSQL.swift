/// The statements for step-ups and presence keys in PostgreSQL.
enum PostgreSQLStepUpSQL {
    /// Waits for transactions that change the session, so that the next statement sees their changes.
    static let hold = Statement("hold_session", "b", "SELECT FROM session_states WHERE token = $1 FOR UPDATE")
    /// Settles an exchange with a step-up.
    ///
    /// Values: the exchange's key and fence, the session's token, the time, the tokens' version; whether the grant is new (1),
    /// the written columns, the outbox rows' columns as lists, and the session's version.
    static let stepUp = Statement(
        "step_up", "bibiii" + "tbtbbioi" + "BBTBIII" + "i",
        """
        WITH owned AS MATERIALIZED (
            SELECT key FROM exchanges WHERE key = $1 AND fence = $2 AND outcome = 0 AND format = 1 FOR UPDATE),
        held AS MATERIALIZED (
            SELECT token, token_version, version, format, ended AS is_over
            FROM session_states WHERE token = $3 FOR UPDATE),
        won AS MATERIALIZED (
            SELECT h.token FROM held h, owned
            WHERE NOT h.is_over AND h.token_version = $5 AND h.version = $22 AND h.format = 1),
        settled AS (
            UPDATE exchanges e SET outcome = 2, outcome_digest = w.token FROM won w WHERE e.key = $1),
        moved AS (
            UPDATE session_states st SET version = st.version + 1, token_version = st.token_version + $6,
                fence = st.fence + $6,
                grant_version = CASE $6 WHEN 1 THEN st.token_version + 1 ELSE st.grant_version END,
                claim = CASE $6 WHEN 1 THEN NULL ELSE st.claim END,
                claim_until = CASE $6 WHEN 1 THEN NULL ELSE st.claim_until END,
                taken_over_at = CASE $6 WHEN 1 THEN NULL ELSE st.taken_over_at END,
                taken_over_before = $6 <> 1 AND st.taken_over_before, answer_lost = $6 <> 1 AND st.answer_lost,
                hold_until = CASE $6 WHEN 1 THEN NULL ELSE st.hold_until END,
                empty_refusals = CASE $6 WHEN 1 THEN 0 ELSE st.empty_refusals END,
                first_empty_at = CASE $6 WHEN 1 THEN NULL ELSE st.first_empty_at END,
                subject_unchecked = $6 <> 1 AND st.subject_unchecked, token_expires_at = $12, refreshable = $13,
                last_used_at = greatest(st.last_used_at, $4), idle_expires_at = greatest(st.idle_expires_at, $14)
            FROM won w WHERE st.token = w.token),
        kept AS (
            UPDATE sessions s SET tokens_key = $7, tokens = $8, facts_key = $9, facts = $10, sid = $11
            FROM won w WHERE s.token = w.token),
        dropped AS (DELETE FROM audience_tokens a USING won w WHERE a.session = w.token AND $6 <> 1),
        revoked AS (
            INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
            SELECT o.* FROM won, unnest($15, $16, $17, $18, $19, $20, $21) o ON CONFLICT (key) DO NOTHING)
        SELECT coalesce(h.format, 1), (SELECT count(*) FROM owned) = 1, coalesce(h.is_over, true), w.token IS NOT NULL
        FROM (SELECT 1) one LEFT JOIN held h ON true LEFT JOIN won w ON true
        """)
    /// Stores a presence key if the session has none.
    ///
    /// Values: the session's token, the ring's key, the envelope, and the audit record's columns. The rows are locked in the
    /// same order as for endings, and read in their current state.
    static let registerPresence = Statement(
        "register_presence", "btb" + "itttt",
        """
        WITH held AS MATERIALIZED (
            SELECT st.token, greatest(s.format, st.format) AS format,
                st.ended OR s.end_reason IS NOT NULL OR s.parent IS NOT NULL AS is_over, s.presence_key, s.presence
            FROM session_states st JOIN sessions s ON s.token = st.token WHERE st.token = $1 FOR UPDATE OF st, s),
        kept AS (
            UPDATE sessions s SET presence_key = $2, presence = $3
            FROM held h WHERE s.token = h.token AND NOT h.is_over AND h.presence IS NULL AND h.format = 1
            RETURNING s.token),
        changed AS (UPDATE session_states st SET version = st.version + 1 FROM kept k WHERE st.token = k.token),
        noted AS (INSERT INTO audit (at, actor, action, target, outcome) SELECT $4, $5, $6, $7, $8 FROM kept)
        SELECT k.token IS NOT NULL, h.format, h.is_over, h.presence_key, h.presence
        FROM held h LEFT JOIN kept k ON true
        """)
}
