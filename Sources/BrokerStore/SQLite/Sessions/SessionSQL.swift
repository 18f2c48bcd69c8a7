import Broker
import GRDB

/// The statements for sessions.
///
/// Keep the column list and the decoder in `RowDecoders` in step.
enum SessionSQL {
    static let columns = """
        format, token, handle, subject, subject_and_client, sid, provider, client, created_at, last_used_at, \
        idle_expires_at, expires_at, token_expires_at, refreshable, token_version, fence, subject_unchecked, ended_at, \
        end_reason, facts_key, facts, tokens_key, tokens, parent, place, presence_key, presence, \
        version
        """
    static let insert = """
        INSERT INTO sessions (token, handle, subject, subject_and_client, sid, provider, client, created_at,
            last_used_at, idle_expires_at, expires_at, token_expires_at, refreshable, token_version, fence,
            subject_unchecked, ended_at, end_reason, facts_key, facts, tokens_key, tokens, parent, place,
            version)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """
    static let byToken = "SELECT \(columns) FROM sessions WHERE token = ?"
    static let byHandle = "SELECT \(columns) FROM sessions WHERE handle = ?"
    static let exists = "SELECT format FROM sessions WHERE token = ?"

    static let slide = """
        UPDATE sessions SET last_used_at = ?1, idle_expires_at = max(idle_expires_at, ?2)
        WHERE token = ?3 AND ended_at IS NULL AND last_used_at < ?1 AND idle_expires_at > ?4 AND expires_at > ?1
            AND format = 1
        """

    /// Moves a session's tokens to the outbox, as the first step of ending the session.
    ///
    /// The second step (`bury`) makes the row a tombstone. Both steps use only columns that every format keeps, so that rows
    /// of a newer version can be ended too. A row that cannot become a tombstone is deleted (`remove`).
    static let toOutbox = """
        INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        SELECT token, token, tokens_key, tokens, ?2, ?2, 0 FROM sessions
        WHERE id = ?1 AND ended_at IS NULL AND tokens IS NOT NULL
        ON CONFLICT (key) DO NOTHING
        """
    static let bury = """
        UPDATE sessions SET ended_at = ?, end_reason = ?, tokens_key = NULL, tokens = NULL, claim_until = NULL,
            presence_key = NULL, presence = NULL
        WHERE id = ? AND ended_at IS NULL
        """
    static let remove = "DELETE FROM sessions WHERE id = ? AND ended_at IS NULL"
    /// The tombstones that belong in the endings file: sessions that ended before they lapsed, without the children that
    /// ended with their parents.
    ///
    /// In a restored backup, lapsed sessions lapse again, and children end with their parents.
    static let tombstones = """
        SELECT token, ended_at, end_reason FROM sessions
        WHERE ended_at IS NOT NULL AND end_reason NOT IN ('expired', 'idle_expired', 'token_expired', 'parent_ended')
        """

    static let knownLogoutToken = "SELECT 1 FROM logout_tokens WHERE id = ?1 AND (until > ?2 OR format > 1)"
    static let rememberLogoutToken = """
        INSERT INTO logout_tokens (id, until) VALUES (?1, ?2)
        ON CONFLICT (id) DO UPDATE SET until = excluded.until WHERE until <= ?3 AND format = 1
        """

    /// Selects the live sessions of a selector, so that they can be ended.
    ///
    /// A selector for many sessions selects parents only, and the trigger ends their children. Selecting children by `sid`
    /// would be wrong: a step-up gives the parent another `sid`, but a child keeps the `sid` that its parent had before.
    static func named(_ selector: SessionSelector) -> String {
        let parents = selector.namesOne ? "" : "parent IS NULL AND "
        return "SELECT id, token FROM sessions WHERE \(condition(selector))\(parents)ended_at IS NULL LIMIT ?"
    }

    /// A page of a selector's live or ended sessions: each row's position in the order, then the row.
    static func page(_ selector: SessionSelector, _ state: SessionState, after: Bool) -> String {
        let (shown, moment) =
            switch state {
            case .live:
                (
                    "\(selector.namesOne ? "" : "parent IS NULL AND ")ended_at IS NULL AND idle_expires_at > ? AND expires_at > ?",
                    "created_at"
                )
            case .ended: ("ended_at IS NOT NULL", "ended_at")
            }
        return """
            SELECT \(moment), handle, \(columns) FROM sessions WHERE \(condition(selector))\(after ? "(\(moment), handle) < (?, ?) AND " : "")
                \(shown) AND format = 1
            ORDER BY \(moment) DESC, handle DESC LIMIT ?
            """
    }

    private static func condition(_ selector: SessionSelector) -> String {
        switch selector {
        case .token: "token = ? AND "
        case .handle: "handle = ? AND "
        case .subject: "subject = ? AND "
        case .subjectExcept: "subject = ?1 AND token <> ?2 AND parent IS NOT ?2 AND "
        case .sid: "sid = ? AND "
        case .logout(let sid, let subject, let clients):
            "\(named(sid, subject)) AND +client IN (\(clients.map { _ in "?" }.joined(separator: ", "))) AND "
        case .provider: "provider = ? AND "
        case .client: "client = ? AND "
        case .all: ""
        }
    }

    /// The part of a logout token's condition that selects its sessions.
    private static func named(_ sid: Digest?, _ subject: Digest?) -> String {
        switch (sid, subject) {
        // Search twice, because SQLite would read the whole table for an OR of both conditions.
        case (_?, _?):
            """
            id IN (SELECT id FROM sessions WHERE sid = ? AND ended_at IS NULL
                UNION ALL SELECT id FROM sessions WHERE subject = ? AND sid IS NULL AND ended_at IS NULL)
            """
        case (_?, nil): "sid = ?"
        case (nil, _): "subject = ?"
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
    var values: [DatabaseValue] {
        switch self {
        case .token(let digest), .subject(let digest), .sid(let digest), .provider(let digest), .client(let digest):
            [digest.sql]
        case .handle(let handle): [handle.text.databaseValue]
        case .subjectExcept(let subject, let current): [subject.sql, current.sql]
        case .logout(let sid, let subject, let clients):
            [sid, subject].compactMap { $0?.sql } + clients.map(\.sql)
        case .all: []
        }
    }
}

extension SessionRow {
    /// The values of `SessionSQL.insert`.
    var values: [DatabaseValue] {
        [
            tokenDigest.sql, handle.text.databaseValue, subject.sql, subjectAndClient.sql, sid.sql, provider.sql,
            client.sql,
            createdAt.sql, lastUsedAt.sql, idleExpiresAt.sql, expiresAt.sql, tokenExpiresAt.sql,
            refreshable.databaseValue, tokenVersion.databaseValue, fence.databaseValue,
            subjectUnchecked.databaseValue, endedAt.sql,
            endReason?.rawValue.databaseValue ?? .null, facts.keyID.databaseValue, facts.envelope.sql,
            tokens?.keyID.databaseValue ?? .null, tokens?.envelope.sql ?? .null, (lineage?.parent).sql,
            (lineage?.place).sql, version.databaseValue,
        ]
    }
}
