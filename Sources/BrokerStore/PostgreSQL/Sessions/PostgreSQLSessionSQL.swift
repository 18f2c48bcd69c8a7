import Broker

/// The statements for sessions in PostgreSQL.
///
/// Keep the column list and the decoder in `RowDecoders` in step.
enum PostgreSQLSessionSQL {
    static let columns = """
        greatest(s.format, st.format), s.token, s.handle, s.subject, s.subject_and_client, s.sid, s.provider, s.client, \
        s.created_at, st.last_used_at, st.idle_expires_at, st.expires_at, st.token_expires_at, st.refreshable, \
        st.token_version, st.fence, st.subject_unchecked, s.ended_at, \(EndReason.column(of: "s.")), s.facts_key, s.facts, \
        s.tokens_key, s.tokens, s.parent, s.place, s.presence_key, s.presence, st.version
        """
    private static let joined = "sessions s JOIN session_states st ON st.token = s.token"
    /// The join of `sessions` and the state table for pages, written as one lookup for each row of `sessions`.
    ///
    /// PostgreSQL plans without the value of the limit. With an ordinary join, it would read both tables whole for a small
    /// page.
    static let walked = "sessions s CROSS JOIN LATERAL (SELECT * FROM session_states WHERE token = s.token LIMIT 1) st"

    static let byToken = Statement(
        "session_by_token", ["token": .bytes], "SELECT \(columns) FROM \(joined) WHERE s.token = :token")
    static let byHandle = Statement(
        "session_by_handle", ["handle": .text], "SELECT \(columns) FROM \(joined) WHERE s.handle = :handle")

    static let tokenVersions = Statement(
        "token_versions", ["tokens": .bytesList],
        """
        SELECT st.token, st.token_version, s.presence IS NOT NULL
        FROM session_states st JOIN sessions s ON s.token = st.token
        WHERE st.token = ANY (:tokens) AND NOT st.ended AND st.format = 1
        """)
    static let slide = Statement(
        "slide", ["token": .bytes, "last_used_at": .integer, "idle_expires_at": .integer, "alive_at": .integer],
        """
        WITH slid AS (
            UPDATE session_states SET last_used_at = :last_used_at, idle_expires_at = greatest(idle_expires_at,
                :idle_expires_at)
            WHERE token = :token AND NOT ended AND last_used_at < :last_used_at AND idle_expires_at > :alive_at
                AND expires_at > :last_used_at
                AND format = 1
            RETURNING format)
        SELECT coalesce((SELECT format FROM slid), (SELECT format FROM session_states WHERE token = :token), 1)
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

    /// The parameters of `insert`, then those of `insertState` except the token.
    static let inserted: Named<ParameterType> = [
        "token": .bytes, "handle": .text, "subject": .bytes, "subject_and_client": .bytes, "sid": .bytes,
        "provider": .bytes, "client": .bytes, "created_at": .integer, "ended_at": .integer, "end_reason": .text,
        "facts_key": .text, "facts": .bytes, "tokens_key": .text, "tokens": .bytes, "last_used_at": .integer,
        "idle_expires_at": .integer, "expires_at": .integer, "token_expires_at": .integer, "refreshable": .truth,
        "token_version": .integer, "fence": .integer, "subject_unchecked": .truth, "ended": .truth,
    ]
    /// The values of `insert`, for a SELECT.
    static let insertedValues = """
        :token, :handle, :subject, :subject_and_client, :sid, :provider, :client, :created_at, :ended_at, :end_reason, \
        :facts_key, :facts, :tokens_key, :tokens
        """
    /// The values of `insertState` except the token, for a SELECT.
    static let insertedState = """
        :last_used_at, :idle_expires_at, :expires_at, :token_expires_at, :refreshable, :token_version, :fence, \
        :subject_unchecked, :ended
        """

    /// Ends the sessions that a selector names.
    static func end(_ selector: SessionSelector) -> Statement {
        let (name, parameters, _) = part(selector)
        let (condition, order) = chosen(selector)
        return Statement(
            "end_\(name)", parameters + ["reason": .text, "now": .integer, "limit": .integer],
            """
            WITH named AS MATERIALIZED (
                SELECT s.token FROM sessions s WHERE \(condition)\(notEnded(selector))
                ORDER BY \(order)s.created_at LIMIT :limit),
            doomed AS MATERIALIZED (SELECT token, :reason AS reason FROM named),
            \(EndingSQL.steps(now: ":now"))
            SELECT (SELECT count(*) FROM named), b.token FROM (SELECT 1) one LEFT JOIN buried b ON true
            """)
    }

    /// Records a logout token as used, and ends the sessions that it selects.
    ///
    /// `until` is the end of the logout token `id`. If two requests use the same id at once, only the request that stores
    /// the id first succeeds.
    static func consume(_ selector: SessionSelector) -> Statement {
        let (name, parameters, _) = part(selector)
        let (condition, order) = chosen(selector)
        return Statement(
            "consume_\(name)",
            parameters + ["reason": .text, "now": .integer, "limit": .integer, "id": .bytes, "until": .integer],
            """
            WITH known AS MATERIALIZED (
                SELECT count(*) AS count FROM logout_tokens WHERE id = :id AND (until > :now OR format > 1)),
            named AS MATERIALIZED (
                SELECT s.token FROM sessions s, known
                WHERE known.count = 0 AND \(condition)\(notEnded(selector))
                ORDER BY \(order)s.created_at LIMIT :limit),
            doomed AS MATERIALIZED (SELECT token, :reason AS reason FROM named),
            \(EndingSQL.steps(now: ":now")),
            remembered AS (
                INSERT INTO logout_tokens (id, until)
                SELECT :id, :until FROM known
                WHERE known.count = 0 AND (SELECT count(*) FROM named) < :limit
                ON CONFLICT (id) DO UPDATE SET until = excluded.until
                    WHERE logout_tokens.until <= :now AND logout_tokens.format = 1
                RETURNING id)
            SELECT known.count, (SELECT count(*) FROM named), (SELECT count(*) FROM remembered), b.token
            FROM known LEFT JOIN buried b ON true
            """)
    }

    /// A page of a selector's live or ended sessions: each row's position in the order, then the row.
    ///
    /// The page begins after the position `after_moment` and `after_handle`, if `after` is true.
    static func page(_ selector: SessionSelector, _ state: SessionState, after: Bool) -> Statement {
        let (name, selected, condition) = part(selector)
        var parameters = selected
        let moment = state == .live ? "s.created_at" : "s.ended_at"
        let shared = sharedColumn(selector)
        var conditions = condition
        if let shared { conditions = after ? "\(shared.column) >= \(shared.value) AND " : range(shared) }
        let place = (shared.map { [$0.column] } ?? []) + [moment, "s.handle"]
        if after {
            let values = (shared.map { [$0.value] } ?? []) + [":after_moment", ":after_handle"]
            conditions += "(\(place.joined(separator: ", "))) < (\(values.joined(separator: ", "))) AND "
            parameters = parameters + ["after_moment": .integer, "after_handle": .text]
        }
        switch state {
        case .live:
            parameters = parameters + ["now": .integer]
            conditions += selector.namesOne ? "" : "s.parent IS NULL AND "
            conditions += "\(notEnded(selector)) AND st.idle_expires_at > :now AND st.expires_at > :now"
        case .ended: conditions += "s.ended_at IS NOT NULL"
        }
        return Statement(
            "page_\(name)_\(state)_\(after)", parameters + ["limit": .integer],
            """
            SELECT \(moment), s.handle, \(columns) FROM \(walked) WHERE \(conditions) AND s.format = 1 AND st.format = 1
            ORDER BY \(place.map { $0 + " DESC" }.joined(separator: ", ")) LIMIT :limit
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
        return (range(shared) + parents, shared.column + ", ")
    }

    /// The column of a selector that has the same value in many sessions, and this value.
    ///
    /// PostgreSQL assumes that each of the column's few values is equally frequent. So for a provider with ten sessions, it
    /// would read all sessions in the order of creation. With a range condition on the column and an order that begins with
    /// the column, it uses the column's index.
    private static func sharedColumn(_ selector: SessionSelector) -> (column: String, value: String)? {
        switch selector {
        case .provider: ("s.provider", ":provider")
        case .client: ("s.client", ":client")
        case .token, .handle, .subject, .subjectExcept, .sid, .logout, .all: nil
        }
    }

    private static func range(_ shared: (column: String, value: String)) -> String {
        "\(shared.column) BETWEEN \(shared.value) AND \(shared.value) AND "
    }

    /// The name of a selector's statement, the selector's parameters, and its condition.
    private static func part(
        _ selector: SessionSelector
    ) -> (name: String, parameters: Named<ParameterType>, condition: String) {
        switch selector {
        case .token: ("token", ["token": .bytes], "s.token = :token AND ")
        case .handle: ("handle", ["handle": .text], "s.handle = :handle AND ")
        case .subject: ("subject", ["subject": .bytes], "s.subject = :subject AND ")
        case .subjectExcept:
            (
                "subject_except", ["subject": .bytes, "current": .bytes],
                "s.subject = :subject AND s.token <> :current AND s.parent IS DISTINCT FROM :current AND "
            )
        case .sid: ("sid", ["sid": .bytes], "s.sid = :sid AND ")
        case .logout(_?, _?, _):
            (
                "logout", ["sid": .bytes, "subject": .bytes, "clients": .bytesList],
                "(s.sid = :sid OR (s.subject = :subject AND s.sid IS NULL)) AND s.client = ANY (:clients) AND "
            )
        case .logout(_?, nil, _):
            ("logout_sid", ["sid": .bytes, "clients": .bytesList], "s.sid = :sid AND s.client = ANY (:clients) AND ")
        case .logout(nil, _, _):
            (
                "logout_subject", ["subject": .bytes, "clients": .bytesList],
                "s.subject = :subject AND s.client = ANY (:clients) AND "
            )
        case .provider: ("provider", ["provider": .bytes], "s.provider = :provider AND ")
        case .client: ("client", ["client": .bytes], "s.client = :client AND ")
        case .all: ("all", [:], "")
        }
    }
}

extension SessionSelector {
    /// The values of the selector's condition in PostgreSQL.
    var parameters: Named<Parameter> {
        switch self {
        case .token(let digest): ["token": .digest(digest)]
        case .subject(let digest): ["subject": .digest(digest)]
        case .sid(let digest): ["sid": .digest(digest)]
        case .provider(let digest): ["provider": .digest(digest)]
        case .client(let digest): ["client": .digest(digest)]
        case .handle(let handle): ["handle": .text(handle.text)]
        case .subjectExcept(let subject, let current): ["subject": .digest(subject), "current": .digest(current)]
        case .logout(let sid, nil, let clients) where sid != nil:
            ["sid": .digest(sid), "clients": .digests(clients)]
        case .logout(nil, let subject, let clients):
            ["subject": .digest(subject), "clients": .digests(clients)]
        case .logout(let sid, let subject, let clients):
            ["sid": .digest(sid), "subject": .digest(subject), "clients": .digests(clients)]
        case .all: [:]
        }
    }
}

extension SessionRow {
    /// The values of `PostgreSQLSessionSQL.inserted`.
    var parameters: Named<Parameter> {
        [
            "token": .digest(tokenDigest), "handle": .text(handle.text), "subject": .digest(subject),
            "subject_and_client": .digest(subjectAndClient), "sid": .digest(sid), "provider": .digest(provider),
            "client": .digest(client), "created_at": .time(createdAt), "ended_at": .time(endedAt),
            "end_reason": .text(endReason?.stored), "facts_key": .text(facts.keyID), "facts": .bytes(facts.envelope),
            "tokens_key": .text(tokens?.keyID), "tokens": .bytes(tokens?.envelope), "last_used_at": .time(lastUsedAt),
            "idle_expires_at": .time(idleExpiresAt), "expires_at": .time(expiresAt),
            "token_expires_at": .time(tokenExpiresAt), "refreshable": .truth(refreshable),
            "token_version": .integer(tokenVersion), "fence": .integer(fence),
            "subject_unchecked": .truth(subjectUnchecked), "ended": .truth(endedAt != nil),
        ]
    }
}

extension Lineage {
    /// The values of `parent, place`; NULL for a session without a parent.
    static func parameters(_ lineage: Lineage?) -> Named<Parameter> {
        ["parent": .digest(lineage?.parent), "place": .digest(lineage?.place)]
    }
}
