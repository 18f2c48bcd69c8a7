/// The failure of a provider call, by what it means for a single-use secret that was in it (the failure table,
/// docs/guarantees.md).
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

    /// Returns the failure with a reason to doubt that a refusal is of the grant.
    package func doubted(_ doubt: OAuthError.Doubt) -> ProviderFailure {
        guard case .rejected(var refusal) = self else { return self }
        refusal.doubt = doubt
        return .rejected(refusal)
    }

    /// The text for the log.
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
    /// Whether the answer's own `error` member says the code; otherwise it stands for an answer in some other form.
    package var isNamed: Bool
    /// Whether the call's proof had a nonce that was not the newest any more: what is said of its grant proves nothing then.
    package var isOfOldProof = false
    /// The reason for which the refusal may be of what the call was made with, and not of its grant; nil for none.
    package var doubt: Doubt?

    /// Something that a grant may be refused for although it lives.
    package enum Doubt: Sendable, Equatable {
        /// The call had no proof, because the server had refused the one before: it may want one, and our clock be off.
        case noProof
        /// Another certificate was shown than the tokens are bound to, or than those were asked for with.
        case otherCertificate
    }

    package init(status: Int, code: String, recoveryOffered: Bool = false, isNamed: Bool = true) {
        self.status = status
        self.code = code
        self.recoveryOffered = recoveryOffered
        self.isNamed = isNamed
    }

    /// Whether the grant is dead: a parsed `invalid_grant` (docs/providers/real-servers.md).
    package var isInvalidGrant: Bool { code == "invalid_grant" }

    /// Whether it is a 400 or 401 without a body, which is no proof of anything by itself (decision 50).
    package var isEmpty: Bool { code.isEmpty }

    /// Whether the server refuses our proof, which says nothing of what it was sent with.
    package var isAboutProof: Bool { code == "invalid_dpop_proof" || code == "use_dpop_nonce" }

    /// The codes that speak of what was asked for with a refresh token, and so of no grant, where something was.
    private static let aboutTargets: Set<String> = [
        "invalid_target", "invalid_scope", "unauthorized_client", "unsupported_grant_type", "access_denied",
        "consent_required", "interaction_required",
    ]

    /// The codes among them that speak of the client and its configuration, and not of one user.
    private static let ofClients: Set<String> = [
        "invalid_target", "invalid_scope", "unauthorized_client", "unsupported_grant_type", "invalid_client",
    ]

    /// Whether it would refuse the target of every session of the client.
    package var isOfClient: Bool { Self.ofClients.contains(code) }

    /// Whether it refuses the target of a call that had one.
    package var isAboutTarget: Bool { Self.aboutTargets.contains(code) && doubt == nil }

    /// The codes that speak of the client, its proof or the moment, and so of no grant.
    private static let aboutNoGrant: Set<String> = [
        "invalid_client", "unauthorized_client", "temporarily_unavailable", "server_error", "slow_down",
        "use_dpop_nonce", "invalid_dpop_proof",
    ]

    /// Whether a refresh that is refused so may be a dead grant's, which its repetition alone can show: an answer without a
    /// body, an OAuth error of another name (one real server says `invalid_request` of a refresh token that it rotated), or an
    /// `invalid_grant` that may be of what the call was made with.
    package var mayMeanDeadGrant: Bool {
        if isEmpty { return true }
        if isInvalidGrant { return doubt != nil }
        guard isNamed, [400, 401].contains(status) else { return false }
        // Keycloak says so of a grant that is bound to another certificate.
        if code == "unauthorized_client" { return doubt == .otherCertificate }
        return !Self.aboutNoGrant.contains(code)
    }
}
