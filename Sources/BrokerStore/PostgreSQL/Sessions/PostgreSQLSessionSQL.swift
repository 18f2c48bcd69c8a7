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
