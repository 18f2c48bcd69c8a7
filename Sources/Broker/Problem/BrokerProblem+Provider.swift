extension BrokerProblem {
    /// Creates the problem of a provider call in which no single-use secret was at stake (discovery, PAR, a start).
    package init(starting failure: ProviderFailure) {
        switch failure {
        case .notSent, .lost:
            self.init(.providerUnavailable, privateDetail: failure.detail, retryAfter: .seconds(5))
        case .retryable(_, let retryAfter, _):
            self.init(.providerUnavailable, privateDetail: failure.detail, retryAfter: retryAfter ?? .seconds(5))
        case .rejected, .unusable: self.init(.providerError, privateDetail: failure.detail)
        case .identityRejected: self.init(.identityRejected, privateDetail: failure.detail)
        }
    }

    /// Creates the problem of an `error` in a callback (RFC 6749 section 4.1.2.1 and its dialects).
    ///
    /// The text is never echoed.
    package init(callbackError code: String) {
        switch code {
        case "access_denied", "consent_required", "user_denied", "user_cancelled_authorize", "user_cancelled_login",
            "unauthorized-user":
            self.init(.accessDenied)
        case "temporarily_unavailable", "server_error":
            self.init(.providerUnavailable, privateDetail: "callback error \(code)", retryAfter: .seconds(5))
        default: self.init(.providerError, privateDetail: "callback error")
        }
    }
}
