import Broker
import Testing

extension ExchangeStore {
    /// Claims a new exchange, and completes it with the given session.
    @discardableResult
    func signIn(
        _ session: SessionRow, replacing: Digest? = nil, sessionLimit: Int = 50
    ) async throws -> EndedSessions {
        let row = Rows.exchange(at: session.createdAt)
        guard case .claimed(let claimed) = try await claimExchange(row, maximumAttempts: 3) else {
            Issue.record("the exchange's claim was not granted")
            return EndedSessions()
        }
        return try #require(
            try await completeExchange(
                claimed.key, fence: claimed.fence, session: session, replacing: replacing, sessionLimit: sessionLimit))
    }

    /// Claims an exchange under a new claim name, like another process.
    func claimAnew(_ row: ExchangeRow, maximumAttempts: Int = 3) async throws -> ExchangeClaimResult {
        var row = row
        row.claim = Rows.claim()
        return try await claimExchange(row, maximumAttempts: maximumAttempts)
    }

    /// Claims an exchange, and records an issue if the claim is not granted.
    func mustClaim(_ row: ExchangeRow, maximumAttempts: Int = 3) async throws -> ExchangeRow {
        let result = try await claimExchange(row, maximumAttempts: maximumAttempts)
        guard case .claimed(let claimed) = result else {
            Issue.record("\(result)")
            return row
        }
        return claimed
    }
}

extension SessionStore {
    /// Ends all sessions of a selector, step by step, and returns the token digests of the written endings.
    func endSessions(_ selector: SessionSelector, reason: EndReason, now: WallTime) async throws -> [Digest] {
        var ended: [Digest] = []
        while true {
            let batch = try await endSessions(selector, reason: reason, now: now, limit: 200)
            #expect(batch.isWritten)
            ended += batch.ended
            if !batch.more { return ended }
        }
    }

    /// Claims a refresh for 25 s.
    func claimRefresh(
        _ tokenDigest: Digest, version: Int64 = 1, at now: WallTime = Rows.now, name: ClaimID = Rows.claim(),
        takesOver: Bool = true
    ) async throws -> RefreshClaimResult {
        try await claimRefresh(
            RefreshClaim(
                tokenDigest: tokenDigest, tokenVersion: version, name: name, lifetime: .seconds(25),
                takesOver: takesOver, now: now)
        )
    }

    /// Claims a refresh, and records an issue if the claim is not granted.
    func mustClaimRefresh(
        _ tokenDigest: Digest, version: Int64 = 1, at now: WallTime = Rows.now
    ) async throws -> RefreshGrant {
        let result = try await claimRefresh(tokenDigest, version: version, at: now)
        guard case .claimed(let grant) = result else {
            Issue.record("\(result)")
            return RefreshGrant(fence: 0)
        }
        return grant
    }

    /// Releases a claim.
    func release(
        _ tokenDigest: Digest, version: Int64 = 1, fence: Int64, holdBack: Duration = .zero, answerLost: Bool = false,
        emptyRefusal: Bool = false
    ) async throws {
        try await releaseRefresh(
            RefreshRelease(
                tokenDigest: tokenDigest, tokenVersion: version, fence: fence, holdBack: holdBack,
                answerLost: answerLost,
                emptyRefusal: emptyRefusal))
    }

    func commit(_ tokenDigest: Digest, version: Int64, _ text: String) async throws -> RefreshCommitResult {
        try await commitRefresh(
            RefreshCommit(
                tokenDigest: tokenDigest, tokenVersion: version, tokens: Rows.sealed(text), facts: nil,
                tokenExpiresAt: Rows.seconds(3600), refreshable: true, expiresAt: nil))
    }
}
