package import Broker

/// Makes the OAuth 2.0 calls for all kinds of providers that issue authorization codes.
///
/// The differences between these kinds are settings.
package struct OAuthEngine: Sendable {
    let settings: ProviderSettings
    let profile: ProviderProfile
    let caller: ProviderCaller
    /// Makes the calls to the provider's log-out page.
    ///
    /// The page has a breaker of its own, so that logins continue while the page is unreachable.
    let logOutCaller: ProviderCaller
    /// The source of the provider's `Date`.
    ///
    /// The `Date` comes from the configured token endpoint, because its answers never come from a cache. If no token endpoint
    /// is configured, the `Date` comes from the issuer's address.
    let time: ProviderTime
    let clock: BrokerClock
    let keys: TokenKeys
    /// The nonces for proofs at this provider.
    let nonces: ProofNonces
    let random: @Sendable (Int) throws -> [UInt8]
    private let clients: [ClientName: EngineClient]
    private let metadataCache: CachedFetch<Metadata>
    private let fixed: Metadata?
    /// The endpoints in the metadata whose URLs are unusable.
    let watch = EndpointWatch()
    /// Interprets this provider's 4xx answers without an OAuth error; returns nil for an unknown answer.
    var dialect: (@Sendable (ProviderAnswer) -> OAuthError?)?

    /// Creates the engine; throws `CatalogueFailure` for settings that can never work.
    init(_ settings: ProviderSettings, environment: ProviderEnvironment) throws {
        self.settings = settings
        profile = settings.profile
        clock = environment.clock
        nonces = environment.nonces
        random = environment.random
        var caller = environment.caller(settings)
        var logOutCaller = environment.caller(settings, isLogOut: true)
        // Calls for metadata, keys and log-out show no client certificate.
        caller.shown = ClientConnections(ConnectionSettings(trust: settings.trust), environment.http)?.now()
        logOutCaller.shown = caller.shown
        self.caller = caller
        self.logOutCaller = logOutCaller
        time = ProviderTime(
            settings.endpoints.token ?? settings.issuer.flatMap { EndpointURL($0) }, settings, environment.http)
        try SettingsCheck.run(settings)
        clients = Dictionary(
            try settings.clients.map { client in
                (
                    client.profile.name,
                    EngineClient(
                        settings: client, profile: client.profile, wire: client.wire,
                        authenticator: try ClientAuthenticator(
                            client, clock: environment.clock, random: environment.random),
                        revocation: settings.endpoints.revocation(of: client.clientID),
                        connections: ClientConnections(client.wire.connection, environment.http),
                        oldSystem: client.oldSystem.map { OldSystem($0, of: settings, environment) },
                        caller: caller.refusing { detail in
                            environment.certificateRefused(settings.name, client.profile.name, detail)
                        })
                )
            }, uniquingKeysWith: { first, _ in first })
        let fetcher = MetadataFetcher(
            settings: settings, caller: caller, clock: environment.clock,
            expectedIssuer: IssuerTemplate.issuer(of: settings)
        ) { [watch, notice = environment.endpointUnusable] known in
            for fault in watch.newFaults(EndpointFault.all(of: known, settings)) { notice(settings.name, fault.text) }
        }
        let cache = CachedFetch<Metadata>(clock: environment.clock) { await fetcher.fetch() }
        metadataCache = cache
        let fixed = settings.discovery ? nil : Metadata(issuer: settings.issuer, endpoints: settings.endpoints)
        self.fixed = fixed
        keys = TokenKeys(caller: caller, clock: environment.clock) { () async throws(ProviderFailure) -> EndpointURL? in
            if let fixed { return fixed.jwks }
            return try await cache.current().value.usable(.jwks)
        }
    }

    /// Returns the metadata, fetched or fixed by the configuration.
    func metadata() async throws(ProviderFailure) -> Metadata {
        if let fixed { return fixed }
        return try await metadataCache.current().value
    }

    /// Returns the metadata for a client.
    ///
    /// If the client has a certificate, the endpoints are the aliases for mutual TLS.
    func metadata(for client: EngineClient) async throws(ProviderFailure) -> Metadata {
        let known = try await metadata()
        return client.certificate == nil ? known : known.withAliases(under: settings.endpoints)
    }

    /// Returns whether an address belongs to the authorization server; false for userinfo, which counts as a resource.
    func owns(_ address: ProofAddress) async throws(ProviderFailure) -> Bool {
        let known = try await metadata()
        let own = [
            known.authorization, known.token, known.refresh, known.jwks, known.revocation, known.endSession,
            known.pushedAuthorization, known.introspection, settings.endpoints.introspection,
        ]
        let fixed = settings.clients.compactMap { settings.endpoints.revocation(of: $0.clientID) }
        return (own.compactMap(\.self) + known.uncalled + fixed).contains { endpoint in
            ProofAddress(endpoint.text).map { $0.origin == address.origin && $0.segments == address.segments } ?? false
        }
    }

    /// Returns the client with the given name.
    ///
    /// Callers pass only configured names. The client's calls show its present certificate, or the previous certificate if
    /// that has the given thumbprint.
    func client(_ name: ClientName, showing thumbprint: String? = nil) throws(ProviderFailure) -> EngineClient {
        guard var client = clients[name] else { throw .notSent(detail: "no such client") }
        if let shown = client.connections?.now(for: thumbprint) { client.caller.shown = shown }
        return client
    }

    /// Returns the thumbprint of the certificate that a client shows now, if any.
    func certificate(of client: ClientName) -> String? { clients[client]?.connections?.thumbprint }

    /// The certificates that clients show, in any order.
    var identities: [(client: ClientName, identity: ClientIdentity)] {
        clients.values.compactMap { client in
            client.wire.connection.identity.map { (client.profile.name, $0) }
        }
    }

    /// The names and ids of all clients.
    var clientIDs: [(name: ClientName, id: String)] {
        clients.values.map { ($0.profile.name, $0.settings.clientID) }
    }

    /// Runs work that precedes a call with a secret, and reports each failure of the work as `notSent`.
    func beforeSending<Value>(
        _ work: () async throws(ProviderFailure) -> Value
    ) async throws(ProviderFailure) -> Value {
        do throws(ProviderFailure) { return try await work() } catch {
            throw .notSent(detail: "before the call: " + error.detail)
        }
    }

    /// Posts parameters with the client's authentication, on a connection for this call alone.
    ///
    /// `call` adds a new DPoP proof each time that the request is sent.
    func post(
        _ parameters: [(name: String, value: String)], to url: EndpointURL, as endpoint: ClientAuthenticator.Endpoint,
        client: EngineClient, headers: [(name: String, value: String)] = [], target: TokenTarget? = nil,
        proving call: ProvenCall? = nil, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderAnswer {
        let target = target?.parameters(scopeSeparator: client.wire.scopeSeparator) ?? []
        // The setting `token_request` applies only to token calls, except for its header fields.
        let wire =
            endpoint == .token
            ? client.wire.tokenRequest : TokenRequestSettings(headers: client.wire.tokenRequest.headers)
        let known = try await beforeSending { () async throws(ProviderFailure) -> Metadata in
            try await metadata()
        }
        let addressee = ClientAuthenticator.Addressee(
            issuer: self.settings.issuer ?? url.text, tokenEndpoint: known.token?.text ?? url.text, called: url.text,
            algorithms: known.assertionAlgorithms)
        let listed = endpoint == .revocation ? known.revocationMethods : known.tokenMethods
        return try await client.authenticator.send(to: endpoint, listed: listed, addressee) {
            (proof) async throws(ProviderFailure) -> ProviderAnswer in
            let names = Set(proof.parameters.map(\.name))
            let named = (parameters.filter { !names.contains($0.name) } + proof.parameters).map { pair in
                pair.name == "client_id" ? (name: client.wire.clientParameter, value: pair.value) : pair
            }
            let body = ParameterBody.make(named, wire, target: target)
            var request = ProviderRequest(
                method: "POST", url: url, connection: .single,
                headers: [("Content-Type", body.type), ("Accept", "application/json")] + proof.headers + wire.headers
                    + headers,
                body: body.bytes)
            if let call { request.fresh = { [try call.field("POST", url)] } }
            let answer = try await client.caller.send(request, by: deadline)
            call?.heard(answer)
            try client.requireCertificate(answer)
            return answer
        }
    }

    /// The parser of this client's token answers.
    func answers(_ client: EngineClient, binding: TokenAnswer.Binding = .none) -> TokenAnswer {
        TokenAnswer(
            settings: client.wire.tokenResponse, scopeSeparator: client.wire.scopeSeparator,
            keepsRefreshToken: client.wire.refresh != .none, binding: binding, dialect: dialect)
    }
}

extension ProofAddress {
    /// The nonempty segments of the path.
    ///
    /// Many servers treat `/token/` and `//token` like `/token`.
    fileprivate var segments: [Substring] { path.split(separator: "/") }
}

extension CertificateShowing where Self: EngineBacked {
    package func certificate(of client: ClientName) -> String? { engine.certificate(of: client) }
}

extension EndpointOwning where Self: EngineBacked {
    package func owns(_ address: ProofAddress) async throws(ProviderFailure) -> Bool {
        try await engine.owns(address)
    }
}

extension CodeExchanging where Self: EngineBacked {
    package func issuerExpectation() async throws(ProviderFailure) -> IssuerExpectation {
        engine.expectation(try await engine.metadata())
    }
}

extension TokenRefreshing where Self: EngineBacked {
    package func refresh(_ request: RefreshRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await engine.refresh(request, by: deadline)
    }
}

extension TokenExchanging where Self: EngineBacked {
    package func exchange(_ request: TargetExchange, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await engine.exchange(request, by: deadline)
    }
}

extension TokenRevoking where Self: EngineBacked {
    package func revoke(
        _ tokens: TokenSet, client: ClientName, by deadline: Duration
    ) async throws(ProviderFailure) {
        try await engine.revoke(tokens, client: client, by: deadline)
    }
}

extension SessionEnding where Self: EngineBacked {
    package func endSession(
        _ tokens: TokenSet, client: ClientName, by deadline: Duration
    ) async throws(ProviderFailure) -> Bool {
        try await engine.endSession(tokens, client: client, by: deadline)
    }

    package func logOutPage(
        _ tokens: TokenSet, client: ClientName, state: Secret
    ) async throws(ProviderFailure) -> Secret? {
        try await engine.logOutPage(tokens, client: client, state: state)
    }
}
