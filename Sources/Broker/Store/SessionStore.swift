/// Stores sessions.
///
/// Each operation that ends a session moves the session's sealed tokens to the outbox and deletes its tokens for other APIs,
/// in the same transaction.
package protocol SessionStore: Sendable {
    /// Returns the session with a token digest, live or a tombstone.
    func session(tokenDigest: Digest) async throws(StoreFailure) -> SessionRow?

    /// Returns the session with a handle, live or a tombstone.
    func session(handle: SessionHandle) async throws(StoreFailure) -> SessionRow?

    /// Returns live or ended sessions after the cursor.
    ///
    /// Live sessions come newest first (creation time, then handle, descending), and ended sessions by their end in the same
    /// way. Live children are listed only if selected by their own token or handle. In all other lists they come with their
    /// parents (`children`).
    func sessions(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) async throws(StoreFailure) -> [SessionRow]

    /// Returns the live children of sessions, oldest first.
    func children(of parents: [Digest], now: WallTime) async throws(StoreFailure) -> [SessionRow]

    /// Inserts a child if its parent lives at `row.createdAt` and is a top-level session.
    ///
    /// In the same transaction, an older child with the same place in the family ends (`replaced`). If live children already
    /// occupy `places` other places, the new child is refused. If a row with this token digest exists, live or ended, the row
    /// stays unchanged.
    func insertChild(_ row: SessionRow, places: Int) async throws(StoreFailure) -> ChildInsertion

    /// Ends at most `limit` sessions of a selector, in any row format.
    ///
    /// A session that has already ended keeps its reason, so the operation can be repeated. The children of each session end
    /// in the same transaction (`parent_ended`), and the result omits them.
    func endSessions(_ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int)
        async throws(StoreFailure) -> EndedBatch

    /// Moves the last use and the idle end of a session that was alive at `aliveAt` and has not reached its absolute end.
    ///
    /// Both times only move forward.
    func slideSession(
        tokenDigest: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime, aliveAt: WallTime
    ) async throws(StoreFailure)

    /// Claims a refresh (fence + 1) if the session is alive at `claim.now`, has the given token version, and has no valid
    /// claim.
    ///
    /// The engine's own clock times the claim. A repeated request under the same name gets the same claim.
    ///
    /// A claim that lapsed `RefreshMarks.grace` ago is taken over if the caller allows it. Until then, only the owner may
    /// continue, because the owner may have a new token pair and may have lost only its connection.
    func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult

    /// Extends a claim, so that it ends `lifetime` from now, if `fence` is current. Returns false if another owner has the
    /// claim, or if the claim was released.
    func renewRefresh(tokenDigest: Digest, fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool

    /// Returns the state of a session's refresh, or nil if there is no such session.
    func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState?

    /// Commits a refreshed token set: raises `tokenVersion` by 1 and clears the claim.
    ///
    /// The session must not have ended, and its version must still be `tokenVersion`. The fence is ignored, so the first token
    /// pair that is stored for a version wins (guarantee 2).
    ///
    /// The row's refresh marks are cleared, except for one fact: whether the refresh token of the version before may have
    /// been sent twice. A take-over of a claim can cause this. A call without an answer can cause it too, because the call
    /// may arrive late.
    ///
    /// For a token pair of a version before the present grant, the result is `outgrown` and the row stays unchanged. An
    /// access token for another API is stored in the same transaction. If the session then has more than
    /// `TargetTokenRow.perSession` such tokens, the token that was unused for longest is deleted.
    func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult

    /// Returns a session's access token for another API, by its key.
    ///
    /// The result is nil if there is no such token, and while the subject of the session's tokens is unchecked. The store
    /// checks the subject's state, because the caller's row may be some seconds old.
    func targetToken(_ key: Digest, of session: Digest) async throws(StoreFailure) -> TargetTokenRow?

    /// Stores an access token that the provider issued in exchange for the session's own, and releases the claim, in one
    /// transaction.
    ///
    /// The session must not have ended. Its fence must still equal `row.version`, and its token version must equal
    /// `tokenVersion`. Its stored tokens must equal `tokens` (nil skips this check). Otherwise nothing is stored, and the
    /// result is false.
    func keepTargetToken(_ row: TargetTokenRow, tokenVersion: Int64, of tokens: Sealed?) async throws(StoreFailure)
        -> Bool

    /// Notes that an access token for another API was used; the stored time only moves forward.
    func useTargetToken(_ key: Digest, at now: WallTime) async throws(StoreFailure)

    /// Releases a claim that brought no result, if its fence and version are current.
    func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure)

    /// Stores a presence key with its audit record, and raises the session's version.
    ///
    /// The session must be a top-level session without a presence key, and must not have ended. If several registrations
    /// arrive at once, only one succeeds. Refreshes and step-ups keep the key, and an ending deletes it.
    func registerPresence(_ commit: PresenceCommit) async throws(StoreFailure) -> PresenceCommitResult

    /// Notes that the subject of a token version was checked.
    func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure)

    /// Ends a session because of its refresh (`grant_revoked`, `refresh_lost`, `subject_changed`).
    ///
    /// The session's fence and version must be the given ones; the result is false if either has changed.
    func condemnRefresh(tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime)
        async throws(StoreFailure) -> Bool
}

extension SessionStore {
    /// Moves the last use and the idle end of a session that is alive at `lastUsedAt`.
    package func slideSession(
        tokenDigest: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime
    ) async throws(StoreFailure) {
        try await slideSession(
            tokenDigest: tokenDigest, lastUsedAt: lastUsedAt, idleExpiresAt: idleExpiresAt, aliveAt: lastUsedAt)
    }
}
