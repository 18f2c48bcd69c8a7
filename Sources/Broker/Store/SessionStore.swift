/// Keeps sessions.
///
/// Ending one always moves its sealed tokens to the outbox in the same transaction.
package protocol SessionStore: Sendable {
    /// Returns the session of a token digest, live or a tombstone.
    func session(token: Digest) async throws(StoreFailure) -> SessionRow?

    /// Returns the session of a handle, live or a tombstone.
    func session(handle: SessionHandle) async throws(StoreFailure) -> SessionRow?

    /// Returns live or ended sessions after the cursor: live ones newest first (creation time, then handle, descending),
    /// ended ones by their end in the same way.
    func sessions(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) async throws(StoreFailure) -> [SessionRow]

    /// Ends the live sessions that the selector names, and returns their token digests. Idempotent: one that has ended
    /// keeps its reason.
    func endSessions(_ selector: SessionSelector, reason: EndReason, now: WallTime)
        async throws(StoreFailure) -> [Digest]

    /// Moves the idle time of a live session; `lastUsedAt` never goes back.
    func slideSession(token: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime) async throws(StoreFailure)

    /// Claims a refresh: fence + 1 and `claimUntil`, where the session lives at `now`, has `tokenVersion` and no claim
    /// stands at `now`. Says also whether the claim was taken over from a lapsed one.
    func claimRefresh(token: Digest, tokenVersion: Int64, now: WallTime, claimUntil: WallTime)
        async throws(StoreFailure) -> RefreshClaimResult

    /// Commits a refreshed token set: `tokenVersion` + 1, claim cleared, where the session is not ended and the version
    /// is still `tokenVersion` — without the fence: the first pair stored for a version wins (guarantee 2).
    func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult

    /// Clears a claim that came to nothing, only with its own fence and version.
    func releaseRefresh(token: Digest, tokenVersion: Int64, fence: Int64) async throws(StoreFailure)

    /// Ends a session for its refresh (`grant_revoked`, `refresh_lost`, `subject_changed`), only with its own fence and
    /// version; false when either moved on.
    func condemnRefresh(token: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime)
        async throws(StoreFailure) -> Bool
}

/// The answer to a refresh claim.
package enum RefreshClaimResult: Sendable, Equatable {
    /// Claimed; `takenOver` when a lapsed claim stood before.
    case claimed(fence: Int64, takenOver: Bool)
    /// Another's claim stands until then.
    case busy(until: WallTime)
    /// The version moved on: read the row again.
    case moved
    /// Not there, ended or past its lifetime.
    case gone
}

/// A refreshed token set to store.
package struct RefreshCommit: Sendable {
    package let token: Digest
    package let tokenVersion: Int64
    package let tokens: Sealed
    /// The facts sealed anew, when the scope shrank; nil leaves them.
    package let facts: Sealed?
    package let tokenExpiresAt: WallTime?
    package let refreshable: Bool
    /// The new end of the session, when the new refresh token's life moves it; nil leaves it.
    package let expiresAt: WallTime?

    package init(
        token: Digest, tokenVersion: Int64, tokens: Sealed, facts: Sealed?, tokenExpiresAt: WallTime?,
        refreshable: Bool, expiresAt: WallTime?
    ) {
        self.token = token
        self.tokenVersion = tokenVersion
        self.tokens = tokens
        self.facts = facts
        self.tokenExpiresAt = tokenExpiresAt
        self.refreshable = refreshable
        self.expiresAt = expiresAt
    }
}

/// What became of a commit.
package enum RefreshCommitResult: Sendable, Equatable {
    case committed
    /// A newer version stands: drop the pair, do not revoke it.
    case superseded
    /// The session ended meanwhile: revoke the pair.
    case ended
}
