/// The release of a claim, with the facts about the claim's provider call that the row has to remember.
package struct RefreshRelease: Sendable {
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    package let fence: Int64
    /// The time after the release during which no further claim is granted.
    package let holdBack: Duration
    /// Whether a refresh call was sent and its answer lost.
    package let answerLost: Bool
    /// Whether the provider refused the call in a way that may mean a dead grant (`OAuthError.mayMeanDeadGrant`).
    package let emptyRefusal: Bool

    package init(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, holdBack: Duration = .zero, answerLost: Bool = false,
        emptyRefusal: Bool = false
    ) {
        self.tokenDigest = tokenDigest
        self.tokenVersion = tokenVersion
        self.fence = fence
        self.holdBack = holdBack
        self.answerLost = answerLost
        self.emptyRefusal = emptyRefusal
    }
}
