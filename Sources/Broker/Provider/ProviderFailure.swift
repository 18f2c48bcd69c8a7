/// How a provider call failed, by what it means for a single-use secret that was in it (DESIGN section 4.1).
///
/// `detail` is for the log only: made of our own words and bounded excerpts, never of a secret.
package enum ProviderFailure: Error, Sendable {
    /// Surely not sent: DNS, connect, TLS, an open breaker, no free place.
    case notSent(detail: String)
    /// Answered 429 or 5xx.
    case retryable(status: Int, retryAfter: Duration?, detail: String)
    /// Answered 4xx with an OAuth error (or its dialect's equivalent).
    case rejected(OAuthError)
    /// Answered, and not as its contract says: a 2xx that cannot be used, a redirect, a 4xx that is no OAuth error.
    case unusable(detail: String)
    /// Sent, and no whole answer came.
    case lost(detail: String)
    /// An id_token, userinfo or logout token that does not verify.
    case identityRejected(detail: String)

    /// A bounded name for metric labels.
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

    /// What to write in the log.
    package var detail: String {
        switch self {
        case .notSent(let detail), .unusable(let detail), .lost(let detail), .identityRejected(let detail): detail
        case .retryable(let status, _, let detail): "status \(status): \(detail)"
        case .rejected(let error): "status \(error.status): \(error.code)"
        }
    }
}

/// A parsed OAuth error answer (RFC 6749 section 5.2), parsed once into a value.
package struct OAuthError: Error, Sendable, Equatable {
    package let status: Int
    /// The `error` value, reduced to 64 characters of RFC 6749's alphabet; empty when the answer had no body at all.
    package let code: String
    /// Whether a recovery call is offered (Clover's `X-Clover-Recovery-Available`).
    package var recoveryOffered: Bool

    package init(status: Int, code: String, recoveryOffered: Bool = false) {
        self.status = status
        self.code = code
        self.recoveryOffered = recoveryOffered
    }

    /// Whether the grant is dead: a parsed `invalid_grant` (real-servers.md).
    package var isInvalidGrant: Bool { code == "invalid_grant" }

    /// Whether it is a 400 or 401 without a body, which is no proof of anything by itself (real-servers.md).
    package var isEmpty: Bool { code.isEmpty }
}
