import Broker

/// The statements for sessions in PostgreSQL.
///
/// Keep the column list and the decoder in `RowDecoders` in step.
enum PostgreSQLSessionSQL {
    static let columns = """
        greatest(s.format, st.format), s.token, s.handle, s.subject, s.subject_and_client, s.sid, s.provider, s.client, \
        s.created_at, st.last_used_at, st.idle_expires_at, st.expires_at, st.token_expires_at, st.refreshable, \
        st.token_version, st.fence, st.subject_unchecked, s.ended_at, s.end_reason, s.facts_key, s.facts, \
        s.tokens_key, s.tokens, s.parent, s.place, s.presence_key, s.presence, st.version
        """
    private static let joined = "sessions s JOIN session_states st ON st.token = s.token"
    /// The join of `sessions` and the state table for pages, written as one lookup for each row of `sessions`.
    ///
    /// PostgreSQL plans without the value of the limit. With an ordinary join, it would read both tables whole for a small
    /// page.
    static let walked = "sessions s CROSS JOIN LATERAL (SELECT * FROM session_states WHERE token = s.token LIMIT 1) st"

    static let byToken = Statement("session_by_token", "b", "SELECT \(columns) FROM \(joined) WHERE s.token = $1")
    static let byHandle = Statement("session_by_handle", "t", "SELECT \(columns) FROM \(joined) WHERE s.handle = $1")

    /// The children of a list of parents that are live at a given time.
    static let children = Statement(
        "children", "Bi",
        """
        SELECT \(columns) FROM \(walked)
        WHERE s.parent = ANY ($1) AND s.end_reason IS NULL AND st.idle_expires_at > $2 AND st.expires_at > $2
            AND s.format = 1 AND st.format = 1
        ORDER BY s.created_at, s.handle
        """)
    /// Locks a parent, so that its children are inserted one after the other, and a child is never inserted while the parent
    /// ends.
    static let lockParent = Statement(
        "lock_parent", "b", "SELECT token FROM session_states WHERE token = $1 FOR UPDATE")
    /// Inserts a child of a live parent, after `lockParent` in the same transaction.
    ///
    /// Values: the columns of `insert` and `insertState`, then the parent, the child's place, and the largest number of other
    /// places.
    static let insertChild = Statement(
        "insert_child", "btbbbbbiittbtb" + "iiiioiioo" + "bbi",
        """
        WITH parent AS MATERIALIZED (
            SELECT p.token FROM sessions p JOIN session_states pt ON pt.token = p.token
            WHERE p.token = $24 AND p.end_reason IS NULL AND p.parent IS NULL AND NOT pt.ended
                AND pt.idle_expires_at > $8 AND pt.expires_at > $8 AND p.format = 1 AND pt.format = 1),
        family AS MATERIALIZED (
            SELECT c.token, c.place, ct.idle_expires_at > $8 AND ct.expires_at > $8 AS lives
            FROM parent JOIN sessions c ON c.parent = parent.token JOIN session_states ct ON ct.token = c.token
            WHERE c.parent = $24 AND c.end_reason IS NULL),
        known AS MATERIALIZED (SELECT s.token FROM sessions s WHERE s.token = $1),
        room AS MATERIALIZED (
            SELECT parent.token FROM parent WHERE NOT EXISTS (SELECT FROM known) AND (SELECT count(*) FROM family WHERE place <> $25 AND lives) < $26),
        doomed AS MATERIALIZED (SELECT f.token, 'replaced' AS reason FROM family f, room WHERE f.place = $25),
        \(EndingSQL.steps(now: 8)),
        inserted AS (
            INSERT INTO sessions (\(insertedColumns), parent, place)
            SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $24, $25 FROM room),
        state AS (\(insertState) SELECT $1, $15, $16, $17, $18, $19, $20, $21, $22, $23 FROM room)
        SELECT (SELECT count(*) FROM parent), (SELECT count(*) FROM room) + (SELECT count(*) FROM known), b.token
        FROM (SELECT 1) one LEFT JOIN buried b ON true
        """)

    static let tokenVersions = Statement(
        "token_versions", "B",
        """
        SELECT st.token, st.token_version, s.presence IS NOT NULL
        FROM session_states st JOIN sessions s ON s.token = st.token
        WHERE st.token = ANY ($1) AND NOT st.ended AND st.format = 1
        """)
    static let slide = Statement(
        "slide", "biii",
        """
        WITH slid AS (
            UPDATE session_states SET last_used_at = $2, idle_expires_at = greatest(idle_expires_at, $3)
            WHERE token = $1 AND NOT ended AND last_used_at < $2 AND idle_expires_at > $4 AND expires_at > $2
                AND format = 1
            RETURNING format)
        SELECT coalesce((SELECT format FROM slid), (SELECT format FROM session_states WHERE token = $1), 1)
        """)

    // MARK: Refreshes

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

    // MARK: Ending and listing

    static let insertedColumns = """
        token, handle, subject, subject_and_client, sid, provider, client, created_at, ended_at, end_reason, facts_key, \
        facts, tokens_key, tokens
        """
    static let insert = "INSERT INTO sessions (\(insertedColumns))"
    static let insertState = """
        INSERT INTO session_states (token, last_used_at, idle_expires_at, expires_at, token_expires_at, refreshable,
            token_version, fence, subject_unchecked, ended)
        """

    /// Ends the sessions that a selector names.
    ///
    /// Values: the selector's, then reason, time and limit.
    static func end(_ selector: SessionSelector) -> Statement {
        let (name, types, _) = part(selector)
        let (condition, order) = chosen(selector)
        let next = types.count + 1
        return Statement(
            "end_\(name)", types + "tii",
            """
            WITH named AS MATERIALIZED (
                SELECT s.token FROM sessions s WHERE \(condition)\(notEnded(selector))
                ORDER BY \(order)s.created_at LIMIT $\(next + 2)),
            doomed AS MATERIALIZED (SELECT token, $\(next) AS reason FROM named),
            \(EndingSQL.steps(now: next + 1))
            SELECT (SELECT count(*) FROM named), b.token FROM (SELECT 1) one LEFT JOIN buried b ON true
            """)
    }

    /// Records a logout token as used, and ends the sessions that it selects.
    ///
    /// Values: the selector's, then reason, time, limit, id and its end. If two requests use the same id at once, only the
    /// request that stores the id first succeeds.
    static func consume(_ selector: SessionSelector) -> Statement {
        let (name, types, _) = part(selector)
        let (condition, order) = chosen(selector)
        let next = types.count + 1
        return Statement(
            "consume_\(name)", types + "tiibi",
            """
            WITH known AS MATERIALIZED (
                SELECT count(*) AS count FROM logout_tokens WHERE id = $\(next + 3) AND (until > $\(next + 1) OR format > 1)),
            named AS MATERIALIZED (
                SELECT s.token FROM sessions s, known
                WHERE known.count = 0 AND \(condition)\(notEnded(selector))
                ORDER BY \(order)s.created_at LIMIT $\(next + 2)),
            doomed AS MATERIALIZED (SELECT token, $\(next) AS reason FROM named),
            \(EndingSQL.steps(now: next + 1)),
            remembered AS (
                INSERT INTO logout_tokens (id, until)
                SELECT $\(next + 3), $\(next + 4) FROM known
                WHERE known.count = 0 AND (SELECT count(*) FROM named) < $\(next + 2)
                ON CONFLICT (id) DO UPDATE SET until = excluded.until
                    WHERE logout_tokens.until <= $\(next + 1) AND logout_tokens.format = 1
                RETURNING id)
            SELECT known.count, (SELECT count(*) FROM named), (SELECT count(*) FROM remembered), b.token
            FROM known LEFT JOIN buried b ON true
            """)
    }

    /// A page of a selector's live or ended sessions: each row's position in the order, then the row.
    ///
    /// Values: the selector's, the cursor's, the time for live sessions, the limit.
    static func page(_ selector: SessionSelector, _ state: SessionState, after: Bool) -> Statement {
        let (name, selected, condition) = part(selector)
        var types = selected
        let moment = state == .live ? "s.created_at" : "s.ended_at"
        let shared = sharedColumn(selector)
        var conditions = condition
        if let shared { conditions = after ? "\(shared) >= $1 AND " : range(shared) }
        let place = (shared.map { [$0] } ?? []) + [moment, "s.handle"]
        if after {
            let values = (shared == nil ? "" : "$1, ") + "$\(types.count + 1), $\(types.count + 2)"
            conditions += "(\(place.joined(separator: ", "))) < (\(values)) AND "
            types += "it"
        }
        switch state {
        case .live:
            types += "i"
            let now = "$\(types.count)"
            conditions += selector.namesOne ? "" : "s.parent IS NULL AND "
            conditions += "\(notEnded(selector)) AND st.idle_expires_at > \(now) AND st.expires_at > \(now)"
        case .ended: conditions += "s.ended_at IS NOT NULL"
        }
        types += "i"
        return Statement(
            "page_\(name)_\(state)_\(after)", types,
            """
            SELECT \(moment), s.handle, \(columns) FROM \(walked) WHERE \(conditions) AND s.format = 1 AND st.format = 1
            ORDER BY \(place.map { $0 + " DESC" }.joined(separator: ", ")) LIMIT $\(types.count)
            """)
    }

    /// Returns the condition that a session has not ended.
    ///
    /// Listings use the condition of their indexes. Lookups by key use a condition that no index has (`EndingSQL`).
    private static func notEnded(_ selector: SessionSelector) -> String {
        switch selector {
        case .token, .handle: "s.end_reason IS NULL"
        case .subject, .subjectExcept, .sid, .logout, .provider, .client, .all: "s.ended_at IS NULL"
        }
    }

    /// The condition and the order that select the sessions to end.
    ///
    /// A selector for many sessions selects parents only, because the trigger ends and locks the children after their
    /// parents. Children have the same value in the selected column. If they were selected too, they would be locked in key
    /// order, and two endings of one family could wait for each other.
    private static func chosen(_ selector: SessionSelector) -> (condition: String, order: String) {
        let parents = selector.namesOne ? "" : "s.parent IS NULL AND "
        guard let shared = sharedColumn(selector) else { return (part(selector).condition + parents, "") }
        return (range(shared) + parents, shared + ", ")
    }

    /// The column of a selector that has the same value in many sessions.
    ///
    /// PostgreSQL assumes that each of the column's few values is equally frequent. So for a provider with ten sessions, it
    /// would read all sessions in the order of creation. With a range condition on the column and an order that begins with
    /// the column, it uses the column's index.
    private static func sharedColumn(_ selector: SessionSelector) -> String? {
        switch selector {
        case .provider: "s.provider"
        case .client: "s.client"
        case .token, .handle, .subject, .subjectExcept, .sid, .logout, .all: nil
        }
    }

    private static func range(_ column: String) -> String { "\(column) BETWEEN $1 AND $1 AND " }

    /// The name of a selector's statement, the types of the selector's values, and its condition.
    private static func part(_ selector: SessionSelector) -> (name: String, types: String, condition: String) {
        switch selector {
        case .token: ("token", "b", "s.token = $1 AND ")
        case .handle: ("handle", "t", "s.handle = $1 AND ")
        case .subject: ("subject", "b", "s.subject = $1 AND ")
        case .subjectExcept:
            ("subject_except", "bb", "s.subject = $1 AND s.token <> $2 AND s.parent IS DISTINCT FROM $2 AND ")
        case .sid: ("sid", "b", "s.sid = $1 AND ")
        case .logout(_?, _?, _):
            (
                "logout", "bbB",
                "(s.sid = $1 OR (s.subject = $2 AND s.sid IS NULL)) AND s.client = ANY ($3) AND "
            )
        case .logout(_?, nil, _): ("logout_sid", "bB", "s.sid = $1 AND s.client = ANY ($2) AND ")
        case .logout(nil, _, _): ("logout_subject", "bB", "s.subject = $1 AND s.client = ANY ($2) AND ")
        case .provider: ("provider", "b", "s.provider = $1 AND ")
        case .client: ("client", "b", "s.client = $1 AND ")
        case .all: ("all", "", "")
        }
    }
}

extension SessionSelector {
    /// The values of the selector's condition in PostgreSQL.
    var parameters: [Parameter] {
        switch self {
        case .token(let digest), .subject(let digest), .sid(let digest), .provider(let digest), .client(let digest):
            [.digest(digest)]
        case .handle(let handle): [.text(handle.text)]
        case .subjectExcept(let subject, let current): [.digest(subject), .digest(current)]
        case .logout(let sid, nil, let clients) where sid != nil:
            [.digest(sid), .list(of: .bytes, clients.map { .digest($0) })]
        case .logout(nil, let subject, let clients):
            [.digest(subject), .list(of: .bytes, clients.map { .digest($0) })]
        case .logout(let sid, let subject, let clients):
            [.digest(sid), .digest(subject), .list(of: .bytes, clients.map { .digest($0) })]
        case .all: []
        }
    }
}

extension SessionRow {
    /// The values of `PostgreSQLSessionSQL.insert`, then those of `insertState` except the token.
    var parameters: [Parameter] {
        [
            .digest(tokenDigest), .text(handle.text), .digest(subject), .digest(subjectAndClient), .digest(sid),
            .digest(provider), .digest(client), .time(createdAt), .time(endedAt), .text(endReason?.rawValue),
            .text(facts.keyID), .bytes(facts.envelope), .text(tokens?.keyID), .bytes(tokens?.envelope),
            .time(lastUsedAt), .time(idleExpiresAt), .time(expiresAt), .time(tokenExpiresAt), .truth(refreshable),
            .integer(tokenVersion), .integer(fence), .truth(subjectUnchecked), .truth(endedAt != nil),
        ]
    }
}

extension Lineage {
    /// The values of `parent, place`; NULL for a session without a parent.
    static func parameters(_ lineage: Lineage?) -> [Parameter] { [.digest(lineage?.parent), .digest(lineage?.place)] }
}
