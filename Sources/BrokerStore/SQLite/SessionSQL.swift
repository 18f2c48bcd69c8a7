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
    /// Finds a session that may have children at the given time.
    static let parent = """
        SELECT 1 FROM sessions
        WHERE token = ?1 AND ended_at IS NULL AND idle_expires_at > ?2 AND expires_at > ?2 AND parent IS NULL
            AND format = 1
        """
    /// Finds the child, live or lapsed, that has a place in a family.
    static let inPlace = "SELECT id, token FROM sessions WHERE parent = ?1 AND ended_at IS NULL AND place = ?2"
    static let otherPlaces = """
        SELECT count(*) FROM sessions
        WHERE parent = ?1 AND ended_at IS NULL AND place <> ?2 AND idle_expires_at > ?3 AND expires_at > ?3
        """
    static let children = """
        SELECT \(columns) FROM sessions
        WHERE parent = ?1 AND ended_at IS NULL AND idle_expires_at > ?2 AND expires_at > ?2 AND format = 1
        ORDER BY created_at, handle
        """
    static let standing = "SELECT format, ended_at, grant_version, token_version FROM sessions WHERE token = ?"
    static let exists = "SELECT format FROM sessions WHERE token = ?"

    static let slide = """
        UPDATE sessions SET last_used_at = ?1, idle_expires_at = max(idle_expires_at, ?2)
        WHERE token = ?3 AND ended_at IS NULL AND last_used_at < ?1 AND idle_expires_at > ?4 AND expires_at > ?1
            AND format = 1
        """
    /// Reads the columns for judging a claim, for example the token version, the refresh marks and the times of the session's
    /// end.
    static let marks = "SELECT \(markColumns) FROM sessions WHERE token = ?"
    static let markColumns = """
        format, token_version, fence, claim, claim_until, claim_epoch, taken_over_at, taken_over_before, \
        answer_lost, hold_until, hold_for, empty_refusals, first_empty_at, ended_at, idle_expires_at, expires_at
        """
    static let mark = """
        UPDATE sessions SET fence = ?2, claim = ?3, claim_until = ?4, claim_epoch = ?5, taken_over_at = ?6,
            taken_over_before = ?7, answer_lost = ?8, hold_until = ?9, empty_refusals = ?10, first_empty_at = ?11,
            hold_for = ?12
        WHERE token = ?1 AND ended_at IS NULL AND format = 1
        """
    static let renew = """
        UPDATE sessions SET claim_until = ?1
        WHERE token = ?2 AND fence = ?3 AND claim_epoch = ?4 AND claim_until IS NOT NULL AND ended_at IS NULL
            AND format = 1
        """
    static let subjectChecked = """
        UPDATE sessions SET subject_unchecked = 0
        WHERE token = ? AND token_version = ? AND ended_at IS NULL AND format = 1
        """
    static let commit = """
        UPDATE sessions SET token_version = token_version + 1, claim = NULL, claim_until = NULL,
            taken_over_before = (taken_over_at IS NOT NULL OR answer_lost <> 0 OR ?1), taken_over_at = NULL,
            answer_lost = 0, hold_until = NULL, empty_refusals = 0, first_empty_at = NULL, subject_unchecked = ?2,
            tokens_key = ?3, tokens = ?4,
            facts_key = CASE WHEN ?5 IS NOT NULL AND facts = coalesce(?12, facts) THEN ?5 ELSE facts_key END,
            facts = CASE WHEN ?6 IS NOT NULL AND facts = coalesce(?12, facts) THEN ?6 ELSE facts END,
            token_expires_at = ?7, refreshable = ?8, expires_at = coalesce(?9, expires_at)
        WHERE token = ?10 AND token_version = ?11 AND ended_at IS NULL AND format = 1 AND (?13 IS NULL OR tokens = ?13)
        """
    /// Stores a presence key if the session has none.
    ///
    /// Values: the row's key, the ring's key, the envelope, and the amount that is added to the version.
    static let registerPresence = """
        UPDATE sessions SET presence_key = ?2, presence = ?3, version = version + ?4
        WHERE token = ?1 AND ended_at IS NULL AND parent IS NULL AND presence IS NULL AND format = 1
        """
    static let standingPresence = """
        SELECT format, ended_at IS NOT NULL OR parent IS NOT NULL, presence_key, presence FROM sessions WHERE token = ?
        """
    /// Reads the columns for judging a step-up's commit.
    static let steppingUp = """
        SELECT format, ended_at, token_version, version FROM sessions WHERE token = ?
        """
    /// Stores a step-up; `?3` is 1 if it begins a new grant, and otherwise 0.
    ///
    /// A new grant raises the token version and the fence, and clears the refresh marks of the old grant.
    static let stepUp = """
        UPDATE sessions SET version = version + 1, token_version = token_version + ?3, fence = fence + ?3,
            grant_version = CASE ?3 WHEN 1 THEN token_version + 1 ELSE grant_version END,
            claim = CASE ?3 WHEN 1 THEN NULL ELSE claim END,
            claim_until = CASE ?3 WHEN 1 THEN NULL ELSE claim_until END,
            taken_over_at = CASE ?3 WHEN 1 THEN NULL ELSE taken_over_at END,
            taken_over_before = CASE ?3 WHEN 1 THEN 0 ELSE taken_over_before END,
            answer_lost = CASE ?3 WHEN 1 THEN 0 ELSE answer_lost END,
            hold_until = CASE ?3 WHEN 1 THEN NULL ELSE hold_until END,
            hold_for = CASE ?3 WHEN 1 THEN NULL ELSE hold_for END,
            empty_refusals = CASE ?3 WHEN 1 THEN 0 ELSE empty_refusals END,
            first_empty_at = CASE ?3 WHEN 1 THEN NULL ELSE first_empty_at END,
            subject_unchecked = CASE ?3 WHEN 1 THEN 0 ELSE subject_unchecked END,
            tokens_key = ?4, tokens = ?5, facts_key = ?6, facts = ?7, sid = ?8, token_expires_at = ?9, refreshable = ?10,
            last_used_at = max(last_used_at, ?11), idle_expires_at = max(idle_expires_at, ?12)
        WHERE token = ?1 AND token_version = ?2 AND ended_at IS NULL AND format = 1
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
    static let condemnable = """
        SELECT id, token FROM sessions
        WHERE token = ? AND token_version = ? AND fence = ? AND ended_at IS NULL
        """
    /// The tombstones that belong in the endings file: sessions that ended before they lapsed, without the children that
    /// ended with their parents.
    ///
    /// In a restored backup, lapsed sessions lapse again, and children end with their parents.
    static let tombstones = """
        SELECT token, ended_at, end_reason FROM sessions
        WHERE ended_at IS NOT NULL AND end_reason NOT IN ('expired', 'idle_expired', 'token_expired', 'parent_ended')
        """
    static let beyondLimit = """
        SELECT id, token FROM sessions
        WHERE subject_and_client = ?1 AND ended_at IS NULL AND idle_expires_at > ?2 AND expires_at > ?2
        ORDER BY created_at DESC, handle DESC LIMIT -1 OFFSET ?3
        """
    /// The columns that determine the time and the reason of a session's lapse.
    static let endColumns = "idle_expires_at, expires_at, token_expires_at, refreshable"
    static let lapsed = """
        SELECT id, token, \(endColumns) FROM sessions
        WHERE min(idle_expires_at, expires_at) <= ? AND ended_at IS NULL AND format = 1 LIMIT ?
        """
    static let lapsedSince = """
        SELECT id, token, \(endColumns) FROM sessions
        WHERE min(idle_expires_at, expires_at) <= ? AND min(idle_expires_at, expires_at) > ? AND ended_at IS NULL
            AND format = 1
        LIMIT ?
        """
    static let sweep = """
        DELETE FROM sessions WHERE id IN
            (SELECT id FROM sessions WHERE ended_at <= ? AND ended_at IS NOT NULL AND format = 1 LIMIT ?)
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
