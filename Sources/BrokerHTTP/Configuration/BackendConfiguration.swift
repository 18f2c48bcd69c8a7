package import Broker

/// A service of the operator that may ask about sessions.
///
/// The service's credential is stored only as a hash (SEC-39).
package struct BackendConfiguration: Sendable {
    /// The sessions that a backend may ask about.
    package struct Scope: Sendable {
        package let provider: ProviderName
        /// The clients whose sessions the backend may ask about; nil means all of the provider's clients.
        package let clients: Set<ClientName>?

        package init(provider: ProviderName, clients: Set<ClientName>? = nil) {
            self.provider = provider
            self.clients = clients
        }
    }

    package let name: BackendName
    /// The SHA-256 of the backend's credential; nil if the backend is known only by its TCP peer address.
    package let digest: Digest?
    package let may: Set<BackendPermission>
    /// The TCP peer addresses of this backend, on the backends' own listener.
    package let peers: [IPNetwork]
    /// The sessions that the backend may ask about; nil means every session.
    package let allow: [Scope]?
    /// Whether forward-auth returns the provider's access token to the backend.
    package let forwardAccessToken: Bool
    /// Whether an introspection by this backend extends the session's idle time.
    ///
    /// The setting is for backends that use only introspection.
    package let slides: Bool
    /// Whether the proxy that calls forward-auth sends the original request's method and address, so that the broker can check
    /// proofs.
    package var originalRequest = false
    /// Further origins (`https://app.example.com`) that an original request may have; the backend may also redeem tickets
    /// for them.
    package var origins = ProofOrigins()
    /// Whether the backend checks proofs itself, using `cnf`.
    package var checksEvidence = false
    /// The APIs that the backend's token exchange may name, in addition to the API of the session's own token.
    package var tokens: [TokenTarget] = []
    /// The demand on the user's sign-in for forward-auth and token exchange.
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

    /// Returns whether the backend may ask about the sessions of a client (SEC-42).
    package func mayAsk(about provider: ProviderName, _ client: ClientName) -> Bool {
        guard let allow else { return true }
        return allow.contains { scope in scope.provider == provider && scope.clients?.contains(client) ?? true }
    }

    /// Throws `backend_not_allowed` if the backend may not ask about the session.
    @Sendable func admits(_ session: LiveSession) throws(BrokerProblem) {
        guard mayAsk(about: session.facts.provider, session.facts.client), isNamed(by: session) else {
            throw BrokerProblem(.backendNotAllowed)
        }
    }

    /// Returns whether the family rules allow the backend to see a session.
    ///
    /// The backend may see every top-level session, and a child session only if the settings of the child's kind list the
    /// backend.
    func isNamed(by session: LiveSession) -> Bool { session.family?.policy.backends.contains(name) ?? true }

    /// The evidence that a request about a bound session must contain; none if the backend checks evidence itself.
    var demand: EvidenceDemand { checksEvidence ? .none : .any }
}
