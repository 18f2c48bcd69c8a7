package import Broker

/// A question that a backend may ask (`backends.NAME.may`).
package enum BackendPermission: String, Sendable, CaseIterable {
    case introspect, token, forwardAuth = "forward-auth", handover
}

/// A service of the operator's that may ask about sessions.
///
/// Its credential is known by its hash only (SEC-39).
package struct BackendConfiguration: Sendable {
    /// The sessions that a backend may ask about.
    package struct Scope: Sendable {
        package let provider: ProviderName
        /// Nil means all of the provider's clients.
        package let clients: Set<ClientName>?

        package init(provider: ProviderName, clients: Set<ClientName>? = nil) {
            self.provider = provider
            self.clients = clients
        }
    }

    package let name: BackendName
    /// SHA-256 of its credential; nil for one that proves itself as a TCP peer only.
    package let digest: Digest?
    package let may: Set<BackendPermission>
    /// TCP peers that are this backend, on the backends' own listener.
    package let peers: [IPNetwork]
    /// Nil means every session.
    package let allow: [Scope]?
    /// Whether forward-auth gives it the provider's access token.
    package let forwardAccessToken: Bool
    /// Whether its introspection of a session counts as use, for backends that ask in no other way.
    package let slides: Bool
    /// Whether the proxy in front says the original request's method and address, so that proofs can be judged here.
    package var originalRequest = false
    /// Further origins that an original request may have, and those whose tickets it redeems (`https://app.example.com`).
    package var origins = ProofOrigins()
    /// Whether it checks proofs itself, by `cnf`.
    package var checksEvidence = false
    /// The APIs beside the session's own that its token exchange may ask for.
    package var tokens: [TokenTarget] = []
    /// The sign-in that forward-auth and token exchange need.
    package var require: StepUpDemand?

    package init(
        name: BackendName, digest: Digest?, may: Set<BackendPermission>, peers: [IPNetwork] = [],
        allow: [Scope]? = nil, forwardAccessToken: Bool = false, slides: Bool = false
    ) {
        self.name = name
        self.digest = digest
        self.may = may
        self.peers = peers
        self.allow = allow
        self.forwardAccessToken = forwardAccessToken
        self.slides = slides
    }

    /// Returns whether it may ask about the sessions of a client (SEC-42).
    package func mayAsk(about provider: ProviderName, _ client: ClientName) -> Bool {
        guard let allow else { return true }
        return allow.contains { scope in scope.provider == provider && scope.clients?.contains(client) ?? true }
    }

    /// Throws where it may not ask about a session.
    @Sendable func admits(_ session: LiveSession) throws(BrokerProblem) {
        guard mayAsk(about: session.facts.provider, session.facts.client), isNamed(by: session) else {
            throw BrokerProblem(.backendNotAllowed)
        }
    }

    /// Returns whether a session is one that it is told of: a child's kind has to name it.
    func isNamed(by session: LiveSession) -> Bool { session.family?.policy.backends.contains(name) ?? true }

    /// The evidence that it has to hand on.
    var demand: EvidenceDemand { checksEvidence ? .none : .any }
}
