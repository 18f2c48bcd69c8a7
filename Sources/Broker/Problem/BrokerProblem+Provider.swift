extension BrokerProblem {
    /// Creates the problem of a provider call in which no single-use secret was at stake (discovery, PAR, a start).
    package init(starting failure: ProviderFailure) {
        switch failure {
        case .notSent, .lost:
            self.init(.providerUnavailable, privateDetail: failure.detail, retryAfter: .seconds(5))
        case .retryable(_, let retryAfter, _):
            self.init(.providerUnavailable, privateDetail: failure.detail, retryAfter: retryAfter ?? .seconds(5))
        case .rejected(let error):
            self.init(
                .providerError, privateDetail: failure.detail, providerError: CallbackError.standardWord(error.code))
        case .unusable: self.init(.providerError, privateDetail: failure.detail)
        case .identityRejected: self.init(.identityRejected, privateDetail: failure.detail)
        }
    }

    /// Creates the problem of an error in a callback (RFC 6749 section 4.1.2.1, OpenID Connect Core 3.1.2.6, and dialects).
    ///
    /// `isSilent` is whether the login is known to have said `prompt=none`. Of the text only a standard's word is shown.
    package init(_ error: CallbackError, isSilent: Bool = false) {
        let code: ProblemCode =
            switch error.code {
            case "access_denied", "user_denied", "user_cancelled_authorize", "user_cancelled_login",
                "unauthorized-user":
                .accessDenied
            case "login_required", "interaction_required", "account_selection_required": .interactionRequired
            // Without `prompt=none` the user was asked, and did not consent.
            case "consent_required": isSilent ? .interactionRequired : .accessDenied
            case "temporarily_unavailable", "server_error": .providerUnavailable
            default: .providerError
            }
        let word = CallbackError.standardWord(error.code)
        self.init(
            code, privateDetail: "callback error: \(word ?? "not a standard's word")",
            retryAfter: code == .providerUnavailable ? .seconds(5) : nil, providerError: word)
    }
}
