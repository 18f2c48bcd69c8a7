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
        "claim_refresh",
        [
            "token": .bytes, "token_version": .integer, "claim": .bytes, "lifetime": .integer, "takes_over": .truth,
            "now": .integer, "moment": .integer,
        ],
        """
        WITH held AS MATERIALIZED (
            SELECT *, \(EngineClock.moment) AS moment FROM session_states WHERE token = :token FOR UPDATE),
        judged AS MATERIALIZED (
            SELECT h.*, CASE
                WHEN h.format > 1 THEN \(Verdict.newerFormat.sql)
                WHEN h.ended OR h.idle_expires_at <= :now OR h.expires_at <= :now THEN \(Verdict.gone.sql)
                WHEN h.token_version <> :token_version THEN \(Verdict.moved.sql)
                WHEN h.claim_until IS NOT NULL AND h.claim = :claim THEN \(Verdict.again.sql)
                WHEN \(EngineClock.stands("h", "h.moment")) THEN \(Verdict.busy.sql)
                WHEN h.claim_until IS NOT NULL AND (NOT :takes_over OR \(EngineClock.justLapsed("h", "h.moment")))
                    THEN \(Verdict.lapsed.sql)
                WHEN h.claim_until IS NOT NULL THEN \(Verdict.takenOver.sql)
                WHEN h.hold_until > h.moment THEN \(Verdict.heldBack.sql)
                ELSE \(Verdict.granted.sql) END AS verdict
            FROM held h),
        granted AS (
            UPDATE session_states st SET
                fence = j.fence + CASE j.verdict WHEN \(Verdict.again.sql) THEN 0 ELSE 1 END,
                claim = :claim, claim_until = j.moment + :lifetime,
                taken_over_at = CASE j.verdict WHEN \(Verdict.takenOver.sql) THEN j.moment ELSE j.taken_over_at END,
                hold_until = CASE j.verdict WHEN \(Verdict.again.sql) THEN j.hold_until END
            FROM judged j WHERE st.token = j.token AND j.verdict IN \(Verdict.grants)
            RETURNING st.fence, st.taken_over_at)
        SELECT j.verdict, j.claim_until - j.moment, j.hold_until - j.moment, g.fence, j.moment - g.taken_over_at,
            j.taken_over_before, j.answer_lost, j.empty_refusals, j.moment - j.first_empty_at
        FROM judged j LEFT JOIN granted g ON true
        """)

    static let renew = Statement(
        "renew_refresh", ["token": .bytes, "fence": .integer, "lifetime": .integer, "moment": .integer],
        """
        UPDATE session_states SET claim_until = \(EngineClock.moment) + :lifetime
        WHERE token = :token AND fence = :fence AND claim_until IS NOT NULL AND NOT ended AND format = 1 RETURNING fence
        """)

    static let state = Statement(
        "refresh_state", ["token": .bytes, "moment": .integer],
        """
        SELECT format, token_version, claim_until - \(EngineClock.moment), ended FROM session_states WHERE token = :token
        """)

    static let release = Statement(
        "release_refresh",
        [
            "token": .bytes, "token_version": .integer, "fence": .integer, "hold_back": .integer, "answer_lost": .truth,
            "empty_refusals": .integer, "moment": .integer,
        ],
        """
        UPDATE session_states SET claim = NULL, claim_until = NULL,
            hold_until = CASE WHEN :hold_back > 0 THEN \(EngineClock.moment) + :hold_back END,
            answer_lost = answer_lost OR :answer_lost, empty_refusals = empty_refusals + :empty_refusals,
            first_empty_at = CASE WHEN :empty_refusals > 0
                THEN coalesce(first_empty_at, \(EngineClock.moment)) ELSE first_empty_at END
        WHERE token = :token AND token_version = :token_version AND fence = :fence AND claim_until IS NOT NULL
            AND NOT ended AND format = 1
        """)

    static let subjectChecked = Statement(
        "subject_checked", ["token": .bytes, "token_version": .integer],
        """
        UPDATE session_states SET subject_unchecked = false
        WHERE token = :token AND token_version = :token_version AND NOT ended AND format = 1
        """)

    /// The parameters of `commit`.
    private static let committed: Named<ParameterType> = [
        "token": .bytes, "token_version": .integer, "tokens_key": .text, "tokens": .bytes, "facts_key": .text,
        "facts": .bytes, "token_expires_at": .integer, "refreshable": .truth, "expires_at": .integer,
        "subject_unchecked": .truth, "answer_lost": .truth, "former_facts": .bytes,
    ]
    static let commit = Statement(
        "commit_refresh", committed,
        committing(
            from:
                "SELECT token, token_version, grant_version, ended, format, true AS is_same FROM session_states WHERE token = :token FOR UPDATE"
        ))

    /// Commits refreshed tokens for a target, only if the row's tokens equal `former_tokens`.
    ///
    /// The rows are locked in the same order as for endings, and read in their current state.
    static let commitRotated = Statement(
        "commit_rotated", committed + ["former_tokens": .bytes], committing(from: compared))

    /// Commits refreshed tokens for a target, together with a token for another API.
    static let commitTargetToken = Statement(
        "commit_audience", committed + ["former_tokens": .bytes] + PostgreSQLTargetTokenSQL.storing,
        committing(from: compared, and: "\(PostgreSQLTargetTokenSQL.storing(from: "won")),"))

    private static let compared = """
        SELECT st.token, st.token_version, st.grant_version, st.ended, st.format, s.tokens = :former_tokens AS is_same
        FROM session_states st JOIN sessions s ON s.token = st.token WHERE st.token = :token FOR UPDATE OF st, s
        """

    private static func committing(from held: String, and further: String = "") -> String {
        """
        WITH held AS MATERIALIZED (\(held)),
        won AS MATERIALIZED (
            SELECT * FROM held WHERE token_version = :token_version AND NOT ended AND format = 1 AND is_same IS NOT FALSE),
        \(further)
        moved AS (
            UPDATE session_states st SET token_version = st.token_version + 1, claim = NULL, claim_until = NULL,
                taken_over_before = (st.taken_over_at IS NOT NULL OR st.answer_lost OR :answer_lost), taken_over_at = NULL,
                answer_lost = false, hold_until = NULL, empty_refusals = 0, first_empty_at = NULL,
                    token_expires_at = :token_expires_at, refreshable = :refreshable,
                expires_at = coalesce(:expires_at, st.expires_at), subject_unchecked = :subject_unchecked
            FROM won w WHERE st.token = w.token),
        kept AS (
            UPDATE sessions s SET tokens_key = :tokens_key, tokens = :tokens,
                facts_key = CASE WHEN :facts_key IS NOT NULL AND s.facts = coalesce(:former_facts, s.facts)
                    THEN :facts_key ELSE s.facts_key END,
                facts = CASE WHEN :facts IS NOT NULL AND s.facts = coalesce(:former_facts, s.facts) THEN :facts ELSE s.facts END
            FROM won w WHERE s.token = w.token)
        SELECT h.format, h.ended, w.token IS NOT NULL, :token_version < h.grant_version, h.token_version = :token_version
        FROM held h LEFT JOIN won w ON true
        """
    }

    static let condemn = Statement(
        "condemn_refresh",
        ["token": .bytes, "token_version": .integer, "fence": .integer, "reason": .text, "now": .integer],
        """
        WITH held AS MATERIALIZED (
            SELECT token, token_version, fence, ended FROM session_states WHERE token = :token FOR UPDATE),
        doomed AS MATERIALIZED (
            SELECT token, :reason AS reason FROM held WHERE token_version = :token_version AND fence = :fence AND NOT ended),
        \(EndingSQL.steps(now: ":now"))
        SELECT token FROM buried
        """)
}
