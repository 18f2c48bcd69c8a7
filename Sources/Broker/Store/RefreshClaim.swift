/// A claim to refresh one version of a session's tokens.
package struct RefreshClaim: Sendable {
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    package let name: ClaimID
    /// The lifetime of the claim, measured with the engine's own clock; the owner may renew the claim.
    package let lifetime: Duration
    /// Whether another owner's claim may be taken over `RefreshMarks.grace` after its lapse.
    ///
    /// If false, a lapsed claim counts as valid.
    package let takesOver: Bool
    /// The caller's wall time, at which the session must be live.
    package let now: WallTime

    package init(
        tokenDigest: Digest, tokenVersion: Int64, name: ClaimID, lifetime: Duration, takesOver: Bool = true,
        now: WallTime
    ) {
        self.tokenDigest = tokenDigest
        self.tokenVersion = tokenVersion
        self.name = name
        self.lifetime = lifetime
        self.takesOver = takesOver
        self.now = now
    }
}
