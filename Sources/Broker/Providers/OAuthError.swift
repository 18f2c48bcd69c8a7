/// An OAuth error answer (RFC 6749 section 5.2), parsed once into a value.
package struct OAuthError: Error, Sendable, Equatable {
    package let status: Int
    /// The `error` value, reduced to 64 characters of RFC 6749's alphabet; empty if the answer had no body at all.
    package let code: String
    /// Whether a recovery call is offered (Clover's `X-Clover-Recovery-Available`).
    package var recoveryOffered: Bool
    /// Whether the code comes from the `error` member of the answer itself.
    ///
    /// If the answer has another form, the broker chooses the code.
    package var isNamed: Bool
    /// Whether the proof in the call had an outdated nonce.
    ///
    /// The refusal then proves nothing about the grant.
    package var isOfOldProof = false
    /// The reason why the refusal may concern the call instead of the grant; nil without such a reason.
    package var doubt: Doubt?

    /// A reason why a server may refuse a grant that is still valid.
    package enum Doubt: Sendable, Equatable {
        /// The call had no proof, because the server had refused the previous proof. So the server may have refused the call
        /// only because the proof was missing.
        case noProof
        /// The call showed another certificate than the one that the tokens are bound to, or were requested with.
        case otherCertificate
    }

    package init(status: Int, code: String, recoveryOffered: Bool = false, isNamed: Bool = true) {
        self.status = status
        self.code = code
        self.recoveryOffered = recoveryOffered
        self.isNamed = isNamed
    }

    /// Whether the server reported `invalid_grant`, which means that the grant is dead (docs/providers/real-servers.md).
    package var isInvalidGrant: Bool { code == "invalid_grant" }

    /// Whether the answer is a 400 or 401 with an empty body, which alone proves nothing (decision 50).
    package var isEmpty: Bool { code.isEmpty }

    /// Whether the server refuses the broker's proof, which proves nothing about the rest of the call.
    package var isAboutProof: Bool { code == "invalid_dpop_proof" || code == "use_dpop_nonce" }

    /// Error codes about the requested resource or scope.
    ///
    /// If a target was requested, they prove nothing about the grant.
    private static let aboutTargets: Set<String> = [
        "invalid_target", "invalid_scope", "unauthorized_client", "unsupported_grant_type", "access_denied",
        "consent_required", "interaction_required",
    ]

    /// Error codes about the client and its configuration, which therefore concern all users of the client.
    private static let ofClients: Set<String> = [
        "invalid_target", "invalid_scope", "unauthorized_client", "unsupported_grant_type", "invalid_client",
    ]

    /// Whether the client would get the same refusal of the target in every session.
    package var isOfClient: Bool { Self.ofClients.contains(code) }

    /// Whether the refusal of a call with a target concerns only the target.
    package var isAboutTarget: Bool { Self.aboutTargets.contains(code) && doubt == nil }

    /// Error codes about the client, its proof or a temporary state of the server, which therefore do not concern the grant.
    ///
    /// In a token answer, `temporarily_unavailable` and `slow_down` are already a `retryable` failure (`TokenAnswer.read`).
    private static let aboutNoGrant: Set<String> = [
        "invalid_client", "unauthorized_client", "temporarily_unavailable", "server_error", "slow_down",
        "use_dpop_nonce", "invalid_dpop_proof",
    ]

    /// Whether this refusal of a refresh may mean that the grant is dead.
    ///
    /// Only further refusals can confirm this.
    ///
    /// An answer with an empty body counts. An OAuth error other than `invalid_grant` counts, too, unless its code is about the
    /// client, its proof or a temporary state of the server. For example, one real server answers `invalid_request` for a refresh
    /// token that it rotated. An `invalid_grant` also counts if it may concern the call instead of the grant (`doubt`).
    package var mayMeanDeadGrant: Bool {
        if isEmpty { return true }
        if isInvalidGrant { return doubt != nil }
        guard isNamed, [400, 401].contains(status) else { return false }
        // Keycloak answers `unauthorized_client` for a grant that is bound to another certificate.
        if code == "unauthorized_client" { return doubt == .otherCertificate }
        return !Self.aboutNoGrant.contains(code)
    }
}
