import Broker
import GRDB

/// The statements for sessions.
///
/// Keep the column list and the decoder in `RowDecoders` in step.
enum SessionSQL {
    static let columns = """
        format, token, handle, subject, subject_and_client, sid, provider, client, created_at, last_used_at, \
        idle_expires_at, expires_at, token_expires_at, refreshable, token_version, fence, subject_unchecked, ended_at, \
        \(EndReason.column(of: "")), facts_key, facts, tokens_key, tokens, parent, place, presence_key, presence, \
        version
        """
    static let insert = NamedSQL(
        """
        INSERT INTO sessions (token, handle, subject, subject_and_client, sid, provider, client, created_at,
            last_used_at, idle_expires_at, expires_at, token_expires_at, refreshable, token_version, fence,
            subject_unchecked, ended_at, end_reason, facts_key, facts, tokens_key, tokens, parent, place,
            version, exported)
        VALUES (:token, :handle, :subject, :subject_and_client, :sid, :provider, :client, :created_at, :last_used_at,
            :idle_expires_at, :expires_at, :token_expires_at, :refreshable, :token_version, :fence, :subject_unchecked,
            :ended_at, :end_reason, :facts_key, :facts, :tokens_key, :tokens, :parent, :place, :version,
            :exported)
        """)
    static let byToken = NamedSQL("SELECT \(columns) FROM sessions WHERE token = :token")
    static let byHandle = NamedSQL("SELECT \(columns) FROM sessions WHERE handle = :handle")
    static let exists = NamedSQL("SELECT format FROM sessions WHERE token = :token")

    static let slide = NamedSQL(
        """
        UPDATE sessions SET last_used_at = :last_used_at, idle_expires_at = max(idle_expires_at, :idle_expires_at)
        WHERE token = :token AND ended_at IS NULL AND last_used_at < :last_used_at AND idle_expires_at > :alive_at
            AND expires_at > :last_used_at AND format = 1
        """)

    /// Moves a session's tokens to the outbox, as the first step of ending the session.
    ///
    /// The second step (`bury`) makes the row a tombstone. Both steps use only columns that every format keeps, so that rows
    /// of a newer version can be ended too. A row that cannot become a tombstone is deleted (`remove`).
    static let toOutbox = NamedSQL(
        """
        INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        SELECT token, token, tokens_key, tokens, :now, :now, 0 FROM sessions
        WHERE id = :id AND ended_at IS NULL AND tokens IS NOT NULL
        ON CONFLICT (key) DO NOTHING
        """)
    static let bury = NamedSQL(
        """
        UPDATE sessions SET ended_at = :now, end_reason = :reason, tokens_key = NULL, tokens = NULL, claim_until = NULL,
            presence_key = NULL, presence = NULL, exported = :exported
        WHERE id = :id AND ended_at IS NULL
        """)
    static let remove = NamedSQL("DELETE FROM sessions WHERE id = :id AND ended_at IS NULL")
    /// The tombstones that belong in the endings file: sessions that ended before they lapsed, without the children that
    /// ended with their parents.
    ///
    /// In a restored backup, lapsed sessions lapse again, and children end with their parents.
    static let tombstones = NamedSQL(
        """
        SELECT token, ended_at, \(EndReason.column(of: "")) FROM sessions
        WHERE ended_at IS NOT NULL AND end_reason NOT IN ('expired', 'idle_expired', 'token_expired', 'parent_ended')
        """)

    static let knownLogoutToken = NamedSQL(
        "SELECT 1 FROM logout_tokens WHERE id = :id AND (until > :now OR format > 1)")
    static let rememberLogoutToken = NamedSQL(
        """
        INSERT INTO logout_tokens (id, until) VALUES (:id, :until)
        ON CONFLICT (id) DO UPDATE SET until = excluded.until WHERE until <= :now AND format = 1
        """)

    /// Selects the live sessions of a selector, so that they can be ended.
    ///
    /// A selector for many sessions selects parents only, and the trigger ends their children. Selecting children by `sid`
    /// would be wrong: a step-up gives the parent another `sid`, but a child keeps the `sid` that its parent had before.
    static func named(_ selector: SessionSelector) -> NamedSQL {
        let parents = selector.namesOne ? "" : "parent IS NULL AND "
        return NamedSQL(
            "SELECT id, token FROM sessions WHERE \(condition(selector))\(parents)ended_at IS NULL LIMIT :limit")
    }

    /// A page of a selector's live or ended sessions: each row's position in the order, then the row.
    static func page(_ selector: SessionSelector, _ state: SessionState, after: Bool) -> NamedSQL {
        let parents = selector.namesOne ? "" : "parent IS NULL AND "
        let (shown, moment) =
            switch state {
            case .live:
                ("\(parents)ended_at IS NULL AND idle_expires_at > :now AND expires_at > :now", "created_at")
            case .ended: ("ended_at IS NOT NULL", "ended_at")
            }
        let place = after ? "(\(moment), handle) < (:after_moment, :after_handle) AND " : ""
        return NamedSQL(
            """
            SELECT \(moment), handle, \(columns) FROM sessions WHERE \(condition(selector))\(place)
                \(shown) AND format = 1
            ORDER BY \(moment) DESC, handle DESC LIMIT :limit
            """)
    }

    private static func condition(_ selector: SessionSelector) -> String {
        switch selector {
        case .token: "token = :token AND "
        case .handle: "handle = :handle AND "
        case .subject: "subject = :subject AND "
        case .subjectExcept: "subject = :subject AND token <> :current AND parent IS NOT :current AND "
        case .sid: "sid = :sid AND "
        case .logout(let sid, let subject, let clients):
            "\(named(sid, subject)) AND +client IN (\(clients.indices.map { ":client\($0)" }.joined(separator: ", "))) AND "
        case .provider: "provider = :provider AND "
        case .client: "client = :client AND "
        case .all: ""
        }
    }

    /// The part of a logout token's condition that selects its sessions.
    private static func named(_ sid: Digest?, _ subject: Digest?) -> String {
        switch (sid, subject) {
        // Search twice, because SQLite would read the whole table for an OR of both conditions.
        case (_?, _?):
            """
            id IN (SELECT id FROM sessions WHERE sid = :sid AND ended_at IS NULL
                UNION ALL SELECT id FROM sessions WHERE subject = :subject AND sid IS NULL AND ended_at IS NULL)
            """
        case (_?, nil): "sid = :sid"
        case (nil, _): "subject = :subject"
        }
    }
}

extension SessionSelector {
    /// Whether a listing may have to read rows that it does not return.
    func isScan(_ state: SessionState) -> Bool {
        switch self {
        case .token, .handle, .subject, .subjectExcept: false
        case .sid, .logout: state == .ended
        case .provider, .client, .all: true
        }
    }

    /// The values of the selector's condition.
    var values: Named<DatabaseValue> {
        switch self {
        case .token(let digest): ["token": digest.sql]
        case .subject(let digest): ["subject": digest.sql]
        case .sid(let digest): ["sid": digest.sql]
        case .provider(let digest): ["provider": digest.sql]
        case .client(let digest): ["client": digest.sql]
        case .handle(let handle): ["handle": handle.text.databaseValue]
        case .subjectExcept(let subject, let current): ["subject": subject.sql, "current": current.sql]
        case .logout(let sid, let subject, let clients):
            Self.values(sid, subject, clients)
        case .all: [:]
        }
    }

    private static func values(_ sid: Digest?, _ subject: Digest?, _ clients: [Digest]) -> Named<DatabaseValue> {
        var values: Named<DatabaseValue> = [:]
        if let sid { values = values + ["sid": sid.sql] }
        if let subject { values = values + ["subject": subject.sql] }
        for (index, client) in clients.enumerated() { values = values + ["client\(index)": client.sql] }
        return values
    }
}

extension SessionRow {
    /// The values of `SessionSQL.insert`.
    var values: Named<DatabaseValue> {
        [
            "token": tokenDigest.sql, "handle": handle.text.databaseValue, "subject": subject.sql,
            "subject_and_client": subjectAndClient.sql, "sid": sid.sql, "provider": provider.sql, "client": client.sql,
            "created_at": createdAt.sql, "last_used_at": lastUsedAt.sql, "idle_expires_at": idleExpiresAt.sql,
            "expires_at": expiresAt.sql, "token_expires_at": tokenExpiresAt.sql,
            "refreshable": refreshable.databaseValue, "token_version": tokenVersion.databaseValue,
            "fence": fence.databaseValue, "subject_unchecked": subjectUnchecked.databaseValue,
            "ended_at": endedAt.sql, "end_reason": endReason?.stored.databaseValue ?? .null,
            "facts_key": facts.keyID.databaseValue, "facts": facts.envelope.sql,
            "tokens_key": tokens?.keyID.databaseValue ?? .null, "tokens": tokens?.envelope.sql ?? .null,
            "parent": (lineage?.parent).sql, "place": (lineage?.place).sql, "version": version.databaseValue,
            "exported": (endReason == .exported).databaseValue,
        ]
    }
}
