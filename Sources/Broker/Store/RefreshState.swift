/// The state of a session's refresh, for waiting callers; it is read without the sealed values.
package struct RefreshState: Sendable, Equatable {
    package let tokenVersion: Int64
    /// The remaining time of a claim, zero or negative after its lapse; nil without a claim.
    package let claimRest: Duration?
    package let isEnded: Bool

    package init(tokenVersion: Int64, claimRest: Duration?, isEnded: Bool) {
        self.tokenVersion = tokenVersion
        self.claimRest = claimRest
        self.isEnded = isEnded
    }

    /// The remaining time of a claim that is still valid; nil otherwise.
    package var claimFor: Duration? { claimRest.flatMap { $0 > .zero ? $0 : nil } }
}
