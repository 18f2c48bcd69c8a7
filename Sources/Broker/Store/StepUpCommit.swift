/// A step-up's result to store in the session that stepped up.
///
/// It is made of the row as it was read a moment before, with `tokenVersion` and `version`: what a refresh, another step-up or a
/// presence key has stored since must not be lost, so the caller reads again until it stands.
package struct StepUpCommit: Sendable {
    package let exchange: Digest
    package let exchangeFence: Int64
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    /// The version of the session that it is made of; the commit raises it.
    package let version: Int64
    /// Whether the tokens are of a new grant; where the old refresh token stays, they are not.
    package let isNewGrant: Bool
    package let tokens: Sealed?
    package let facts: Sealed
    package let sid: Digest?
    package let tokenExpiresAt: WallTime?
    package let refreshable: Bool
    package let idleExpiresAt: WallTime
    /// The time at which it is used.
    package let now: WallTime
    /// The tokens of the grant that ends with it, to be revoked.
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

/// The answer to a step-up that is to be stored.
package enum StepUpCommitResult: Sendable, Equatable {
    case committed
    /// A refresh has stored newer tokens, or the session has changed: read the row again.
    case moved
    /// The session is not there or has ended; the exchange is as it was. Whether it has lapsed is not the store's to say: a wall
    /// clock may be wrong.
    case ended
    /// The exchange is another fence's, or settled.
    case takenAway
}
