/// A claim given back, with what the row has to remember of its call.
package struct RefreshRelease: Sendable {
    package let token: Digest
    package let tokenVersion: Int64
    package let fence: Int64
    /// How long nobody claims again.
    package let holdBack: Duration
    /// Whether a call was sent and not answered.
    package let answerLost: Bool
    /// Whether the provider refused in a way that may mean a dead grant: without a body, or by an error of another name.
    package let emptyRefusal: Bool

    package init(
        token: Digest, tokenVersion: Int64, fence: Int64, holdBack: Duration = .zero, answerLost: Bool = false,
        emptyRefusal: Bool = false
    ) {
        self.token = token
        self.tokenVersion = tokenVersion
        self.fence = fence
        self.holdBack = holdBack
        self.answerLost = answerLost
        self.emptyRefusal = emptyRefusal
    }
}

/// How a session's refresh stands, for those who wait: read without a blob.
package struct RefreshState: Sendable, Equatable {
    package let tokenVersion: Int64
    /// How long a claim still stands; nil when none does.
    package let claimFor: Duration?
    package let isEnded: Bool

    package init(tokenVersion: Int64, claimFor: Duration?, isEnded: Bool) {
        self.tokenVersion = tokenVersion
        self.claimFor = claimFor
        self.isEnded = isEnded
    }
}
