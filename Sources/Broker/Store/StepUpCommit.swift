/// The data of a step-up that is to be stored in its session.
///
/// The commit is made from a row that was read a moment before, with its `tokenVersion` and `version`. A refresh, another
/// step-up or a presence key may have changed the row since. Those changes must survive. So if the row has changed, the
/// commit is refused, and the caller makes a new commit from the changed row.
package struct StepUpCommit: Sendable {
    package let exchange: Digest
    package let exchangeFence: Int64
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    /// The session version that the commit was made from; the commit raises it.
    package let version: Int64
    /// Whether the tokens belong to a new grant; false if the session keeps its refresh token.
    package let isNewGrant: Bool
    package let tokens: Sealed?
    package let facts: Sealed
    package let sid: Digest?
    package let tokenExpiresAt: WallTime?
    package let refreshable: Bool
    package let idleExpiresAt: WallTime
    /// The time of the step-up, which counts as a use.
    package let now: WallTime
    /// The outbox rows that revoke the grant which this step-up ends.
    package let outbox: [OutboxRow]

    package init(
        exchange: Digest, exchangeFence: Int64, tokenDigest: Digest, tokenVersion: Int64, version: Int64,
        isNewGrant: Bool, tokens: Sealed?, facts: Sealed, sid: Digest?, tokenExpiresAt: WallTime?, refreshable: Bool,
        idleExpiresAt: WallTime, now: WallTime, outbox: [OutboxRow]
    ) {
        self.exchange = exchange
        self.exchangeFence = exchangeFence
        self.tokenDigest = tokenDigest
        self.tokenVersion = tokenVersion
        self.version = version
        self.isNewGrant = isNewGrant
        self.tokens = tokens
        self.facts = facts
        self.sid = sid
        self.tokenExpiresAt = tokenExpiresAt
        self.refreshable = refreshable
        self.idleExpiresAt = idleExpiresAt
        self.now = now
        self.outbox = outbox
    }
}
