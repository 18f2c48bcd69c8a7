package import Broker

extension ChargeLimits {
    /// Makes the limits of a listener's charges from what the HTTP surface takes.
    package init(_ limits: HTTPLimits) {
        self.init(
            loginsPerMinute: limits.loginsPerMinute, wrongTokensPerMinute: limits.wrongTokensPerMinute,
            pending: limits.pendingLogins)
    }
}
