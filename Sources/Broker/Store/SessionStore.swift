/// Keeps sessions.
///
/// Ending one always moves its sealed tokens to the outbox in the same transaction, and deletes its tokens for other APIs.
package protocol SessionStore: Sendable {
    /// Returns the session of a token digest, live or a tombstone.
    func session(tokenDigest: Digest) async throws(StoreFailure) -> SessionRow?

    /// Returns the session of a handle, live or a tombstone.
    func session(handle: SessionHandle) async throws(StoreFailure) -> SessionRow?

    /// Returns live or ended sessions after the cursor: live ones newest first (creation time, then handle, descending),
    /// ended ones by their end in the same way. Live children are listed by their own token or handle alone: they come
    /// with their parents (`children`).
    func sessions(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) async throws(StoreFailure) -> [SessionRow]

    /// Returns the live children of sessions, the oldest first.
    func children(of parents: [Digest], now: WallTime) async throws(StoreFailure) -> [SessionRow]

    /// Inserts a child where its parent lives at `row.createdAt` and is no child itself, and ends the one that has its
    /// place (`replaced`), in one transaction; not where so many other places are taken. One that stands already, or has
    /// ended, is left as it is.
    func insertChild(_ row: SessionRow, places: Int) async throws(StoreFailure) -> ChildInsertion

    /// Ends live sessions that the selector names, at most `limit` of them, whatever their rows' format. Idempotent: one
    /// that has ended keeps its reason. Whatever ends a session ends its children in the same transaction
    /// (`parent_ended`), and names none of them.
    func endSessions(_ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int)
        async throws(StoreFailure) -> EndedBatch

    /// Moves the idle time of a session that lived at `aliveAt` and has not come to its other end; neither time goes back.
    func slideSession(
        tokenDigest: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime, aliveAt: WallTime
    ) async throws(StoreFailure)

    /// Claims a refresh: fence + 1 where the session lives at `claim.now`, has the version and no claim stands. The claim
    /// is timed by the engine's own clock, and asking again under its name gets the same grant.
    ///
    /// A claim that lapsed `RefreshMarks.grace` ago is taken over where the caller allows it; before that its owner may be
    /// cut off with a new pair in hand, and comes first.
    func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult

    /// Lets a claim stand for so long from now, with its own fence; false when it is another's.
    func renewRefresh(tokenDigest: Digest, fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool

    /// Returns how the refresh of a session stands, or nil when there is no such session.
    func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState?

    /// Commits a refreshed token set: `tokenVersion` + 1, claim cleared, where the session is not ended and the version
    /// is still `tokenVersion` — without the fence: the first pair stored for a version wins (guarantee 2). What the row
    /// remembers of the version is cleared, but that its refresh token may have gone out twice is carried into the next:
    /// a claim of it was taken over, or a call of it was not answered and may arrive late. A pair of a version from before
    /// the present grant is `outgrown`, and changes nothing. An access token for another API is stored in the same transaction,
    /// and of more than `AudienceRow.perSession` the longest unused goes.
    func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult

    /// Returns a session's access token for another API by its key; nil where there is none, and where nobody has looked at the
    /// subject of the session's tokens yet: who asks may know a row of the session that is some seconds old.
    func audience(_ key: Digest, of session: Digest) async throws(StoreFailure) -> AudienceRow?

    /// Stores an access token that the session's own was exchanged for, and gives the claim back, in one transaction: where the
    /// session has not ended and claim and version are still the row's, whose version is the fence, and its tokens
    /// are still `tokens` (nil asks for none): else nothing, and false.
    func keepAudience(_ row: AudienceRow, tokenVersion: Int64, of tokens: Sealed?) async throws(StoreFailure) -> Bool

    /// Notes that a token was used; never back in time.
    func useAudience(_ key: Digest, at now: WallTime) async throws(StoreFailure)

    /// Gives a claim back that came to nothing, only with its own fence and version.
    func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure)

    /// Stores a presence key, with its audit record, and raises the session's version, where the session is not ended, is no
    /// child and has none: of several at once one stands. Refreshes and step-ups leave it; an ending takes it.
    func registerPresence(_ commit: PresenceCommit) async throws(StoreFailure) -> PresenceCommitResult

    /// Clears the mark that a version's subject is unchecked.
    func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure)

    /// Ends a session for its refresh (`grant_revoked`, `refresh_lost`, `subject_changed`), only with its own fence and
    /// version; false when either moved on.
    func condemnRefresh(tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime)
        async throws(StoreFailure) -> Bool
}

extension SessionStore {
    /// Moves the idle time of a session that lives when it is used.
    package func slideSession(
        tokenDigest: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime
    ) async throws(StoreFailure) {
        try await slideSession(
            tokenDigest: tokenDigest, lastUsedAt: lastUsedAt, idleExpiresAt: idleExpiresAt, aliveAt: lastUsedAt)
    }
}

/// The answer to a child that is to be inserted.
package enum ChildInsertion: Sendable, Equatable {
    /// It stands; the digest of the one that had its place, if it was alive.
    case made(replaced: [Digest])
    /// All the parent's places are taken.
    case full
    /// The parent is not there, has ended, is past its times or a child itself.
    case parentEnded
}

/// The result of one step of ending sessions.
package struct EndedBatch: Sendable, Equatable {
    /// The token digests of the sessions that it ended.
    package var ended: [Digest]
    /// Whether there may be more to end: the caller goes on.
    package var more: Bool
    /// Whether it is on disk; if not, this process refuses the sessions and goes on trying to write that they ended.
    package var isWritten: Bool

    package init(ended: [Digest], more: Bool, isWritten: Bool = true) {
        self.ended = ended
        self.more = more
        self.isWritten = isWritten
    }
}

/// A session that ended, and why.
package struct EndedSession: Sendable, Equatable {
    package let tokenDigest: Digest
    package let reason: EndReason

    package init(tokenDigest: Digest, reason: EndReason) {
        self.tokenDigest = tokenDigest
        self.reason = reason
    }
}
