/// The failure of a provider call, by its consequence for a single-use secret in the call (the failure table,
/// docs/guarantees.md).
///
/// `detail` is for the log only. It consists of the broker's own words and bounded excerpts, and never contains a secret.
package enum ProviderFailure: Error, Sendable {
    /// The request was certainly not sent, because of DNS, connect, TLS, an open breaker or too many calls in progress.
    case notSent(detail: String)
    /// The broker may try again later.
    ///
    /// The reasons are:
    /// - The status is 429, or 500 or more.
    /// - A token answer has an error code for a passing state, such as `slow_down`, with any status (`isTransient`).
    /// - The server refused the client's certificate in its answer.
    /// - The server refused the proof's nonce a second time.
    /// - The answer to a call that only reads was lost. `status` is then 0.
    case retryable(status: Int, retryAfter: Duration?, detail: String)
    /// The provider answered with an OAuth error (or its dialect's equivalent), usually with 4xx.
    case rejected(OAuthError)
    /// The answer violates the protocol, for example a useless 2xx, a redirect, or a 4xx without an OAuth error.
    case unusable(detail: String)
    /// The request was sent, but the answer did not arrive completely.
    case lost(detail: String)
    /// An id_token, userinfo or logout token failed its verification, or an API refused the access token.
    ///
    /// `refusesToken` is true if the API answered 401.
    case identityRejected(detail: String, refusesToken: Bool = false)

    /// The failure's name for metrics, from a fixed set.
    package var shortDescription: String {
        switch self {
        case .notSent: "not_sent"
        case .retryable: "retryable"
        case .rejected: "rejected"
        case .unusable: "unusable"
        case .lost: "lost"
        case .identityRejected: "identity_rejected"
        }
    }

    /// Returns the failure with a reason why the refusal may not concern the grant.
    ///
    /// Only `rejected` failures change.
    package func doubted(_ doubt: OAuthError.Doubt) -> ProviderFailure {
        guard case .rejected(var refusal) = self else { return self }
        refusal.doubt = doubt
        return .rejected(refusal)
    }

    /// The text for the log.
    package var detail: String {
        switch self {
        case .notSent(let detail), .unusable(let detail), .lost(let detail), .identityRejected(let detail, _): detail
        case .retryable(let status, _, let detail): "status \(status): \(detail)"
        case .rejected(let error): "status \(error.status): \(error.code)"
        }
    }
}
