import Broker

/// The steps that end sessions, shared by all statements that do so.
enum EndingSQL {
    private static let exported = EndReason.exported.rawValue

    /// Ends the sessions of a step named `doomed (token, reason)` at the time in parameter `now`.
    ///
    /// The step `buried (token, reason)` returns the sessions that were ended. Their rows are locked first, parents before
    /// children and otherwise in key order, and then read in their current state. If a refresh committed meanwhile, its new
    /// token pair is revoked. An exported session's tokens are only deleted, and its stored reason is `admin`. Only columns
    /// that every format keeps are changed.
    ///
    /// The rows are found by a list of keys, because PostgreSQL then expects few rows. With a join to `doomed`, PostgreSQL
    /// would read both tables whole (`PostgreSQLUpkeepSQL`).
    ///
    /// A live row is recognised by its missing reason, as in every query by key. With `ended_at IS NULL`, the planner could
    /// choose the indexes of live sessions. It takes new indexes for empty, and would read too much (decision 38).
    static func steps(now: String) -> String {
        """
        locked AS MATERIALIZED (
            SELECT st.token, d.reason, s.tokens_key, s.tokens
            FROM session_states st JOIN sessions s ON s.token = st.token JOIN doomed d ON d.token = st.token
            WHERE st.token = ANY (ARRAY (SELECT token FROM doomed)) AND NOT st.ended AND s.end_reason IS NULL
            ORDER BY s.parent IS NOT NULL, st.token FOR UPDATE OF st, s),
        revoked AS (
            INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
            SELECT token, token, tokens_key, tokens, \(now), \(now), 0 FROM locked
            WHERE tokens IS NOT NULL AND reason <> '\(exported)'
            ON CONFLICT (key) DO NOTHING),
        stopped AS (
            UPDATE session_states st SET ended = true, claim = NULL, claim_until = NULL
            FROM locked l WHERE st.token = l.token),
        buried AS (
            UPDATE sessions s SET ended_at = \(now), exported = l.reason = '\(exported)',
                end_reason = CASE l.reason WHEN '\(exported)' THEN '\(EndReason.exported.stored)' ELSE l.reason END, tokens_key = NULL, tokens = NULL,
                presence_key = NULL, presence = NULL
            FROM locked l WHERE s.token = l.token
            RETURNING s.token, s.end_reason AS reason)
        """
    }
}
