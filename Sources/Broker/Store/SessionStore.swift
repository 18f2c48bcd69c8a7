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

    /// Ends live sessions that the selector names, at most `limit` of them, whatever their rows' format. Idempotent: one
    /// that has ended keeps its reason.
    func endSessions(_ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int)
        async throws(StoreFailure) -> EndedBatch

    /// Moves the idle time of a live session; `lastUsedAt` never goes back.
    func slideSession(token: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime) async throws(StoreFailure)

    /// Claims a refresh: fence + 1 where the session lives at `claim.now`, has the version and no claim stands. The claim
    /// is timed by the engine's own clock, and asking again under its name gets the same grant.
    ///
    /// A claim that lapsed `RefreshMarks.grace` ago is taken over where the caller allows it; before that its owner may be
    /// cut off with a new pair in hand, and comes first.
    func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult

    /// Lets a claim stand for so long from now, with its own fence; false when it is another's.
    func renewRefresh(token: Digest, fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool

    /// Returns how the refresh of a session stands, or nil when there is no such session.
    func refreshState(_ token: Digest) async throws(StoreFailure) -> RefreshState?

    /// Commits a refreshed token set: `tokenVersion` + 1, claim cleared, where the session is not ended and the version
    /// is still `tokenVersion` — without the fence: the first pair stored for a version wins (guarantee 2). What the row
    /// remembers of the version is cleared, but that its refresh token may have gone out twice is carried into the next:
    /// a claim of it was taken over, or a call of it was not answered and may arrive late.
    func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult

    /// Gives a claim back that came to nothing, only with its own fence and version.
    func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure)

    /// Clears the mark that a version's subject is unchecked.
    func markSubjectChecked(token: Digest, tokenVersion: Int64) async throws(StoreFailure)

    /// Ends a session for its refresh (`grant_revoked`, `refresh_lost`, `subject_changed`), only with its own fence and
    /// version; false when either moved on.
    func condemnRefresh(token: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime)
        async throws(StoreFailure) -> Bool
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
    /// Whether the new id_token's subject is still to be looked at, before anybody gets these tokens.
    package let subjectUnchecked: Bool
    /// Whether another call of this claim was sent and not answered.
    package let answerLost: Bool

    package init(
        token: Digest, tokenVersion: Int64, tokens: Sealed, facts: Sealed?, tokenExpiresAt: WallTime?,
        refreshable: Bool, expiresAt: WallTime?, subjectUnchecked: Bool = false, answerLost: Bool = false
    ) {
        self.answerLost = answerLost
        self.subjectUnchecked = subjectUnchecked
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
