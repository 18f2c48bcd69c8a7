import Broker
import BrokerStore

extension MemoryState {
    /// Orders sessions as the lists do: live ones by their creation, ended ones by their end.
    static func newestFirst(_ left: SessionRow, _ right: SessionRow) -> Bool {
        isBefore(SessionCursor(after: right), SessionCursor(after: left))
    }

    private static func isBefore(_ left: SessionCursor, _ right: SessionCursor) -> Bool {
        (left.moment, left.handle.text) < (right.moment, right.handle.text)
    }

    func sessions(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) -> [SessionRow] {
        let rows = sessions.values.filter { row in
            let isListed = row.lineage == nil || selector.namesOne
            let shown = state == .live ? isListed && row.isLive(at: now) : row.endedAt != nil
            guard shown, selector.matches(row) else { return false }
            return after.map { Self.isBefore(SessionCursor(after: row), $0) } ?? true
        }
        return Array(rows.sorted(by: Self.newestFirst).prefix(max(limit, 0)))
    }

    mutating func endSessions(
        _ selector: SessionSelector, _ reason: EndReason, _ now: WallTime, limit: Int
    ) -> EndedBatch {
        // An ending of many sessions selects only parents, and their children end with them.
        let tokens = sessions.values
            .filter { $0.endedAt == nil && selector.matches($0) && (selector.namesOne || $0.lineage == nil) }
            .prefix(limit).map(\.tokenDigest)
        for tokenDigest in tokens { end(tokenDigest, reason, now) }
        return EndedBatch(ended: tokens, more: tokens.count == limit)
    }

    /// Ends one session; returns false if the session is absent or has already ended.
    ///
    /// An ended session keeps its reason.
    @discardableResult
    mutating func end(_ tokenDigest: Digest, _ reason: EndReason, _ now: WallTime) -> Bool {
        guard let row = sessions[tokenDigest], row.endedAt == nil else { return false }
        if reason.revokesTokens, let work = row.revocation(at: now) { addOutbox([work]) }
        sessions[tokenDigest] = row.ended(reason, at: now)
        dropTargetTokens(of: tokenDigest)
        guard row.lineage == nil else { return true }
        for child in sessions.values where child.lineage?.parent == tokenDigest {
            end(child.tokenDigest, .parentEnded, now)
        }
        return true
    }

    func children(of parents: [Digest], now: WallTime) -> [SessionRow] {
        sessions.values.filter { row in
            row.isLive(at: now) && row.lineage.map { parents.contains($0.parent) } ?? false
        }.sorted(by: Self.newestFirst).reversed()
    }

    mutating func insertChild(_ row: SessionRow, places: Int) -> ChildInsertion {
        let now = row.createdAt
        guard let lineage = row.lineage, let parent = sessions[lineage.parent], parent.isLive(at: now),
            parent.lineage == nil
        else { return .parentEnded }
        guard sessions[row.tokenDigest] == nil else { return .made(replaced: []) }
        let family = sessions.values.filter { $0.endedAt == nil && $0.lineage?.parent == lineage.parent }
        let others = family.filter { $0.lineage?.place != lineage.place && $0.isLive(at: now) }
        guard others.count < places else { return .full }
        let replaced = family.filter { $0.lineage?.place == lineage.place }.map(\.tokenDigest)
        for tokenDigest in replaced { end(tokenDigest, .replaced, now) }
        sessions[row.tokenDigest] = row
        handles[row.handle] = row.tokenDigest
        return .made(replaced: replaced)
    }

    mutating func registerPresence(_ commit: PresenceCommit) -> PresenceCommitResult {
        guard let row = sessions[commit.tokenDigest], row.endedAt == nil, row.lineage == nil else { return .ended }
        if let standing = row.presence { return .standing(standing) }
        sessions[commit.tokenDigest]?.presence = StoredPresence(commit.sealed)
        sessions[commit.tokenDigest]?.version += 1
        audit.append(commit.audit)
        return .committed
    }

    mutating func slideSession(
        _ tokenDigest: Digest, _ lastUsedAt: WallTime, _ idleExpiresAt: WallTime, aliveAt: WallTime
    ) {
        guard var row = sessions[tokenDigest], row.endedAt == nil, row.lastUsedAt < lastUsedAt,
            aliveAt < row.idleExpiresAt, lastUsedAt < row.expiresAt
        else { return }
        row.lastUsedAt = lastUsedAt
        row.idleExpiresAt = max(row.idleExpiresAt, idleExpiresAt)
        sessions[tokenDigest] = row
    }

    mutating func claimRefresh(_ claim: RefreshClaim, at moment: Duration) -> RefreshClaimResult {
        guard var row = sessions[claim.tokenDigest], row.isLive(at: claim.now) else { return .gone }
        guard row.tokenVersion == claim.tokenVersion else { return .moved }
        var marks = marks[claim.tokenDigest] ?? RefreshMarks()
        switch marks.claim(claim.name, for: claim.lifetime, takesOver: claim.takesOver, at: moment) {
        case .busy(let rest): return .busy(for: rest)
        case .heldBack(let rest): return .heldBack(for: rest)
        case .granted(let again): if !again { row.fence += 1 }
        }
        sessions[claim.tokenDigest] = row
        self.marks[claim.tokenDigest] = marks
        return .claimed(marks.grant(fence: row.fence, at: moment))
    }

    mutating func renewRefresh(_ tokenDigest: Digest, fence: Int64, for lifetime: Duration, at moment: Duration) -> Bool
    {
        guard let row = sessions[tokenDigest], row.endedAt == nil, row.fence == fence,
            marks[tokenDigest]?.claimUntil != nil
        else {
            return false
        }
        marks[tokenDigest]?.claimUntil = moment + lifetime
        return true
    }

    func refreshState(_ tokenDigest: Digest, at moment: Duration) -> RefreshState? {
        guard let row = sessions[tokenDigest] else { return nil }
        return RefreshState(
            tokenVersion: row.tokenVersion, claimRest: marks[tokenDigest]?.claimUntil.map { $0 - moment },
            isEnded: row.endedAt != nil)
    }

    mutating func commitRefresh(_ commit: RefreshCommit) -> RefreshCommitResult {
        guard var row = sessions[commit.tokenDigest], row.endedAt == nil else { return .ended }
        guard row.tokenVersion == commit.tokenVersion else {
            return commit.tokenVersion < grantVersions[commit.tokenDigest, default: 0] ? .outgrown : .superseded
        }
        guard commit.formerTokens == nil || commit.formerTokens == row.tokens else { return .changed }
        row.tokenVersion += 1
        row.subjectUnchecked = commit.subjectUnchecked
        marks[commit.tokenDigest] = (marks[commit.tokenDigest] ?? RefreshMarks()).afterCommit(
            answerLost: commit.answerLost)
        row.tokens = commit.tokens
        if let facts = commit.facts, commit.formerFacts.map({ $0 == row.facts }) ?? true { row.facts = facts }
        row.tokenExpiresAt = commit.tokenExpiresAt
        row.refreshable = commit.refreshable
        if let expiresAt = commit.expiresAt { row.expiresAt = expiresAt }
        sessions[commit.tokenDigest] = row
        if let token = commit.targetToken { store(token) }
        return .committed
    }

    mutating func completeStepUp(_ commit: StepUpCommit) -> StepUpCommitResult {
        guard var exchange = owned(commit.exchange, commit.exchangeFence) else { return .takenAway }
        guard var row = sessions[commit.tokenDigest], row.endedAt == nil else { return .ended }
        guard row.tokenVersion == commit.tokenVersion, row.version == commit.version else { return .moved }
        exchange.outcome = .session(commit.tokenDigest)
        exchanges[commit.exchange] = exchange
        if commit.isNewGrant {
            row.tokenVersion += 1
            row.fence += 1
            row.subjectUnchecked = false
            marks[commit.tokenDigest] = RefreshMarks()
            grantVersions[commit.tokenDigest] = row.tokenVersion
        }
        dropTargetTokens(of: commit.tokenDigest)
        row.version += 1
        row.tokens = commit.tokens
        row.facts = commit.facts
        row.sid = commit.sid
        row.tokenExpiresAt = commit.tokenExpiresAt
        row.refreshable = commit.refreshable
        row.lastUsedAt = max(row.lastUsedAt, commit.now)
        row.idleExpiresAt = max(row.idleExpiresAt, commit.idleExpiresAt)
        sessions[commit.tokenDigest] = row
        addOutbox(commit.outbox)
        return .committed
    }

    mutating func releaseRefresh(_ release: RefreshRelease, at moment: Duration) {
        guard let row = sessions[release.tokenDigest], row.endedAt == nil, row.tokenVersion == release.tokenVersion,
            row.fence == release.fence
        else { return }
        marks[release.tokenDigest]?.release(release, at: moment)
    }

    mutating func markSubjectChecked(_ tokenDigest: Digest, version: Int64) {
        guard sessions[tokenDigest]?.tokenVersion == version else { return }
        sessions[tokenDigest]?.subjectUnchecked = false
    }

    mutating func condemnRefresh(
        _ tokenDigest: Digest, version: Int64, fence: Int64, _ reason: EndReason, _ now: WallTime
    ) -> Bool {
        guard let row = sessions[tokenDigest], row.endedAt == nil, row.tokenVersion == version, row.fence == fence
        else {
            return false
        }
        end(tokenDigest, reason, now)
        return true
    }
}

extension SessionSelector {
    /// Returns whether the selector selects the row, alive or ended.
    func matches(_ row: SessionRow) -> Bool {
        switch self {
        case .token(let tokenDigest): row.tokenDigest == tokenDigest
        case .handle(let handle): row.handle == handle
        case .subject(let subject): row.subject == subject
        case .subjectExcept(let subject, let current):
            row.subject == subject && row.tokenDigest != current && row.lineage?.parent != current
        case .sid(let sid): row.sid == sid
        case .logout(let sid, let subject, let clients): clients.contains(row.client) && isNamed(row, sid, subject)
        case .provider(let provider): row.provider == provider
        case .client(let client): row.client == client
        case .all: true
        }
    }

    private func isNamed(_ row: SessionRow, _ sid: Digest?, _ subject: Digest?) -> Bool {
        guard let sid else { return row.subject == subject }
        return row.sid == sid || (row.sid == nil && row.subject == subject)
    }
}

extension SessionRow {
    /// Returns the outbox row that revokes the session's tokens after its end; nil if the session has no tokens.
    ///
    /// The row's id is the session's digest, because a session ends only once.
    func revocation(at now: WallTime) -> OutboxRow? {
        tokens.map { OutboxRow(id: tokenDigest, boundTo: tokenDigest, tokens: $0, createdAt: now, nextAttemptAt: now) }
    }
}
