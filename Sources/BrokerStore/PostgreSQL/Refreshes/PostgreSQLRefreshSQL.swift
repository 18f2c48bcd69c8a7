import Broker

/// The statements for refreshes in PostgreSQL.
enum PostgreSQLRefreshSQL {
    /// The verdicts of `claim`, which repeats in SQL the rules that `RefreshMarks.claim` has for the other engines.
    enum Verdict: Int, Sendable {
        case newerFormat, gone, moved
        /// The claim of another owner is still valid.
        case busy
        /// The claim of another owner has lapsed, but may not be taken over now.
        case lapsed
        case heldBack
        /// The claim was granted before, to a request with the same name.
        case again
        case takenOver, granted

        var sql: String { "\(rawValue)" }
        /// The verdicts that write the claim, as an SQL list.
        static var grants: String { "(\(again.sql), \(takenOver.sql), \(granted.sql))" }
    }

    /// Locks the row, judges its current state, and writes the claim if it is granted.
    static let claim = Statement(
        "claim_refresh", "bibioii",
        """
        WITH held AS MATERIALIZED (
            SELECT *, \(EngineClock.moment(7)) AS moment FROM session_states WHERE token = $1 FOR UPDATE),
        judged AS MATERIALIZED (
            SELECT h.*, CASE
                WHEN h.format > 1 THEN \(Verdict.newerFormat.sql)
                WHEN h.ended OR h.idle_expires_at <= $6 OR h.expires_at <= $6 THEN \(Verdict.gone.sql)
                WHEN h.token_version <> $2 THEN \(Verdict.moved.sql)
                WHEN h.claim_until IS NOT NULL AND h.claim = $3 THEN \(Verdict.again.sql)
                WHEN \(EngineClock.stands("h", "h.moment")) THEN \(Verdict.busy.sql)
                WHEN h.claim_until IS NOT NULL AND (NOT $5 OR \(EngineClock.justLapsed("h", "h.moment")))
                    THEN \(Verdict.lapsed.sql)
                WHEN h.claim_until IS NOT NULL THEN \(Verdict.takenOver.sql)
                WHEN h.hold_until > h.moment THEN \(Verdict.heldBack.sql)
                ELSE \(Verdict.granted.sql) END AS verdict
            FROM held h),
        granted AS (
            UPDATE session_states st SET
                fence = j.fence + CASE j.verdict WHEN \(Verdict.again.sql) THEN 0 ELSE 1 END,
                claim = $3, claim_until = j.moment + $4,
                taken_over_at = CASE j.verdict WHEN \(Verdict.takenOver.sql) THEN j.moment ELSE j.taken_over_at END,
                hold_until = CASE j.verdict WHEN \(Verdict.again.sql) THEN j.hold_until END
            FROM judged j WHERE st.token = j.token AND j.verdict IN \(Verdict.grants)
            RETURNING st.fence, st.taken_over_at)
        SELECT j.verdict, j.claim_until - j.moment, j.hold_until - j.moment, g.fence, j.moment - g.taken_over_at,
            j.taken_over_before, j.answer_lost, j.empty_refusals, j.moment - j.first_empty_at
        FROM judged j LEFT JOIN granted g ON true
        """)

    static let renew = Statement(
        "renew_refresh", "biii",
        """
        UPDATE session_states SET claim_until = \(EngineClock.moment(4)) + $3
        WHERE token = $1 AND fence = $2 AND claim_until IS NOT NULL AND NOT ended AND format = 1 RETURNING fence
        """)

    static let state = Statement(
        "refresh_state", "bi",
        """
        SELECT format, token_version, claim_until - \(EngineClock.moment(2)), ended FROM session_states WHERE token = $1
        """)

    static let release = Statement(
        "release_refresh", "biiioii",
        """
        UPDATE session_states SET claim = NULL, claim_until = NULL,
            hold_until = CASE WHEN $4 > 0 THEN \(EngineClock.moment(7)) + $4 END, answer_lost = answer_lost OR $5,
            empty_refusals = empty_refusals + $6,
            first_empty_at = CASE WHEN $6 > 0 THEN coalesce(first_empty_at, \(EngineClock.moment(7))) ELSE first_empty_at END
        WHERE token = $1 AND token_version = $2 AND fence = $3 AND claim_until IS NOT NULL AND NOT ended AND format = 1
        """)

    static let subjectChecked = Statement(
        "subject_checked", "bi",
        """
        UPDATE session_states SET subject_unchecked = false
        WHERE token = $1 AND token_version = $2 AND NOT ended AND format = 1
        """)

    static let commit = Statement(
        "commit_refresh", "bitbtbioioob",
        committing(
            from:
                "SELECT token, token_version, grant_version, ended, format, true AS is_same FROM session_states WHERE token = $1 FOR UPDATE"
        ))

    /// Commits refreshed tokens for a target, only if the row's tokens equal the last value.
    ///
    /// The rows are locked in the same order as for endings, and read in their current state.
    static let commitRotated = Statement("commit_rotated", "bitbtbioioob" + "b", committing(from: compared))

    /// Commits refreshed tokens for a target, together with a token for another API.
    ///
    /// The values of `commitRotated` come first, then those of the token's row.
    static let commitTargetToken = Statement(
        "commit_audience", "bitbtbioioob" + "b" + "bbiiitb",
        committing(from: compared, and: "\(PostgreSQLTargetTokenSQL.storing(from: "won", first: 14)),"))

    private static let compared = """
        SELECT st.token, st.token_version, st.grant_version, st.ended, st.format, s.tokens = $13 AS is_same
        FROM session_states st JOIN sessions s ON s.token = st.token WHERE st.token = $1 FOR UPDATE OF st, s
        """

    private static func committing(from held: String, and further: String = "") -> String {
        """
        WITH held AS MATERIALIZED (\(held)),
        won AS MATERIALIZED (
            SELECT * FROM held WHERE token_version = $2 AND NOT ended AND format = 1 AND is_same IS NOT FALSE),
        \(further)
        moved AS (
            UPDATE session_states st SET token_version = st.token_version + 1, claim = NULL, claim_until = NULL,
                taken_over_before = (st.taken_over_at IS NOT NULL OR st.answer_lost OR $11), taken_over_at = NULL,
                answer_lost = false, hold_until = NULL, empty_refusals = 0, first_empty_at = NULL, token_expires_at = $7, refreshable = $8,
                expires_at = coalesce($9, st.expires_at), subject_unchecked = $10
            FROM won w WHERE st.token = w.token),
        kept AS (
            UPDATE sessions s SET tokens_key = $3, tokens = $4,
                facts_key = CASE WHEN $5 IS NOT NULL AND s.facts = coalesce($12, s.facts) THEN $5 ELSE s.facts_key END,
                facts = CASE WHEN $6 IS NOT NULL AND s.facts = coalesce($12, s.facts) THEN $6 ELSE s.facts END
            FROM won w WHERE s.token = w.token)
        SELECT h.format, h.ended, w.token IS NOT NULL, $2 < h.grant_version, h.token_version = $2
        FROM held h LEFT JOIN won w ON true
        """
    }

    static let condemn = Statement(
        "condemn_refresh", "biiti",
        """
        WITH held AS MATERIALIZED (
            SELECT token, token_version, fence, ended FROM session_states WHERE token = $1 FOR UPDATE),
        doomed AS MATERIALIZED (
            SELECT token, $4 AS reason FROM held WHERE token_version = $2 AND fence = $3 AND NOT ended),
        \(EndingSQL.steps(now: 5))
        SELECT token FROM buried
        """)
}
