/// A claim to refresh one version of a session's tokens.
package struct RefreshClaim: Sendable {
    package let token: Digest
    package let tokenVersion: Int64
    package let name: ClaimID
    /// How long it stands, by the engine's own clock, unless it is renewed.
    package let lifetime: Duration
    /// Whether a claim that lapsed long enough ago may be taken over; otherwise it counts as standing.
    package let takesOver: Bool
    /// The caller's calendar time, by which the session has to live.
    package let now: WallTime

    package init(
        token: Digest, tokenVersion: Int64, name: ClaimID, lifetime: Duration, takesOver: Bool = true, now: WallTime
    ) {
        self.token = token
        self.tokenVersion = tokenVersion
        self.name = name
        self.lifetime = lifetime
        self.takesOver = takesOver
        self.now = now
    }
}

/// The answer to a refresh claim.
package enum RefreshClaimResult: Sendable, Equatable {
    case claimed(RefreshGrant)
    /// Another's claim stands, for so long.
    case busy(for: Duration)
    /// The provider is to be left alone, for so long.
    case heldBack(for: Duration)
    /// The version moved on: read the row again.
    case moved
    /// Not there, ended or past its lifetime.
    case gone
}

/// What a refresh claim was granted with: its fence, and what the row remembers of this version.
package struct RefreshGrant: Sendable, Equatable {
    package let fence: Int64
    /// How long ago a claim of this version was last taken over from a lapsed one, or nil.
    package let takenOverFor: Duration?
    /// Whether a claim of the version before was taken over: its refresh token may have gone out twice.
    package let takenOverBefore: Bool
    /// Whether a call of this version was sent and not answered.
    package let answerLost: Bool
    /// How many refusals that may mean a dead grant this version had, and how long ago the first was.
    package let emptyRefusals: Int
    package let emptyFor: Duration

    package init(
        fence: Int64, takenOverFor: Duration? = nil, takenOverBefore: Bool = false, answerLost: Bool = false,
        emptyRefusals: Int = 0, emptyFor: Duration = .zero
    ) {
        self.fence = fence
        self.takenOverFor = takenOverFor
        self.takenOverBefore = takenOverBefore
        self.answerLost = answerLost
        self.emptyRefusals = emptyRefusals
        self.emptyFor = emptyFor
    }
}
