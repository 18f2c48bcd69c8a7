import Broker
import Testing

extension ExchangeStore {
    /// Stores a session by way of an exchange of its own.
    @discardableResult
    func signIn(
        _ session: SessionRow, replacing: Digest? = nil, sessionLimit: Int = 50
    ) async throws -> EndedSessions {
        let row = Rows.exchange(at: session.createdAt)
        guard case .claimed(let claimed) = try await claimExchange(row, maximumAttempts: 3) else {
            Issue.record("not claimed")
            return EndedSessions()
        }
        return try #require(
            try await completeExchange(
                claimed.key, fence: claimed.fence, session: session, replacing: replacing, sessionLimit: sessionLimit))
    }

    /// Claims and expects to be the owner.
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
    /// Claims a refresh and expects the fence.
    func mustClaimRefresh(
        _ token: Digest, version: Int64 = 1, at now: WallTime = Rows.now
    ) async throws -> (fence: Int64, takenOver: Bool) {
        let result = try await claimRefresh(
            token: token, tokenVersion: version, now: now, claimUntil: now.advanced(by: .seconds(25)))
        guard case .claimed(let fence, let takenOver) = result else {
            Issue.record("\(result)")
            return (0, false)
        }
        return (fence, takenOver)
    }

    func commit(_ token: Digest, version: Int64, _ text: String) async throws -> RefreshCommitResult {
        try await commitRefresh(
            RefreshCommit(
                token: token, tokenVersion: version, tokens: Rows.sealed(text), facts: nil,
                tokenExpiresAt: Rows.seconds(3600), refreshable: true, expiresAt: nil))
    }
}
