package import Broker

/// The OAuth 2.0 client that every kind with codes is built on.
///
/// Only settings differ.
package struct OAuthEngine: Sendable {
    let settings: ProviderSettings
    let profile: ProviderProfile
    let caller: ProviderCaller
    /// Calls the provider's log-out page.
    ///
    /// It has a breaker of its own: a page that is down must not stop logins.
    let logOutCaller: ProviderCaller
    /// The provider's `Date`: of its token endpoint, which no cache answers for.
    let time: ProviderTime
    let clock: BrokerClock
    let keys: TokenKeys
    /// The nonces for proofs at this provider.
    let nonces: ProofNonces
    let random: @Sendable (Int) throws -> [UInt8]
    private let clients: [ClientName: EngineClient]
    private let metadataCache: CachedFetch<Metadata>
    private let fixed: Metadata?
    /// The endpoints of the metadata that are not a URL to call.
    let watch = EndpointWatch()
    /// The meaning of a 4xx without an OAuth error at this provider.
    var dialect: (@Sendable (ProviderAnswer) -> OAuthError?)?

    /// Creates the engine; throws `CatalogueFailure` for settings that cannot work.
    init(_ settings: ProviderSettings, environment: ProviderEnvironment) throws {
        self.settings = settings
        profile = settings.profile
        clock = environment.clock
        nonces = environment.nonces
        random = environment.random
        var caller = environment.caller(settings)
        var logOutCaller = environment.caller(settings, isLogOut: true)
        // Nothing is shown to whoever gives out metadata and keys, or signs the user out.
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
                        settings: client,
                        authenticator: try ClientAuthenticator(
                            client, clock: environment.clock, random: environment.random),
                        revocation: settings.endpoints.revocation(of: client.clientID),
                        connections: ClientConnections(client.wire.connection, environment.http),
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

    /// The metadata, discovered or fixed.
    func metadata() async throws(ProviderFailure) -> Metadata {
        if let fixed { return fixed }
        return try await metadataCache.current().value
    }

    /// The metadata as a client goes by it.
    func metadata(for client: EngineClient) async throws(ProviderFailure) -> Metadata {
        let known = try await metadata()
        return client.certificate == nil ? known : known.withAliases(under: settings.endpoints)
    }

    /// Whether an address is one of the authorization server's; userinfo is a resource.
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

    /// The client of a name; the domain only knows configured ones.
    ///
    /// Its calls go on connections of the certificate that it shows now, or of the one before where tokens are bound to that.
    func client(_ name: ClientName, showing thumbprint: String? = nil) throws(ProviderFailure) -> EngineClient {
        guard var client = clients[name] else { throw .notSent(detail: "no such client") }
        if let shown = client.connections?.now(for: thumbprint) { client.caller.shown = shown }
        return client
    }

    /// Returns the thumbprint of the certificate that a client shows now; nil where it shows none.
    func certificate(of client: ClientName) -> String? { clients[client]?.connections?.thumbprint }

    /// The certificates that clients show, in no order.
    var identities: [(client: ClientName, identity: ClientIdentity)] {
        clients.values.compactMap { client in
            client.wire.connection.identity.map { (client.profile.name, $0) }
        }
    }

    /// All clients' names and ids.
    var clientIDs: [(name: ClientName, id: String)] {
        clients.values.map { ($0.profile.name, $0.settings.clientID) }
    }

    /// Runs what has to happen before a secret is sent: whatever fails in it, nothing was sent yet.
    func beforeSending<Value>(
        _ work: () async throws(ProviderFailure) -> Value
    ) async throws(ProviderFailure) -> Value {
        do throws(ProviderFailure) { return try await work() } catch {
            throw .notSent(detail: "before the call: " + error.detail)
        }
    }

    /// Posts parameters with the client's proof, each call on a connection of its own; `call` adds a new proof to each sending.
    func post(
        _ parameters: [(name: String, value: String)], to url: EndpointURL, as endpoint: ClientAuthenticator.Endpoint,
        client: EngineClient, headers: [(name: String, value: String)] = [], target: TokenTarget? = nil,
        proving call: ProvenCall? = nil, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderAnswer {
        let target = target?.parameters(scopeSeparator: client.wire.scopeSeparator) ?? []
        // The settings of a token call's shape are for token calls alone.
        let wire =
            endpoint == .token
            ? client.wire.tokenRequest : TokenRequestSettings(headers: client.wire.tokenRequest.headers)
        let known = try await beforeSending { () async throws(ProviderFailure) -> Metadata in
            try await metadata()
        }
        let audiences = ClientAuthenticator.Audiences(
            issuer: self.settings.issuer ?? url.text, tokenEndpoint: known.token?.text ?? url.text, called: url.text)
        let listed = endpoint == .revocation ? known.revocationMethods : known.tokenMethods
        return try await client.authenticator.send(to: endpoint, listed: listed, audiences) {
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
    /// The path's segments but for empty ones: many a server takes `/token/` and `//token` for `/token`.
    fileprivate var segments: [Substring] { path.split(separator: "/") }
}

/// A provider whose calls are the engine's, but for those that its kind makes in its own way.
package protocol EngineBacked: ProviderInspection, TimeTelling {
    var engine: OAuthEngine { get }

    /// Whether a probe looks at its keys: no login goes without them.
    var probesKeys: Bool { get }
}

extension EngineBacked {
    package var profile: ProviderProfile { engine.profile }
    package var breaker: CircuitBreaker.State { engine.caller.limiter.breaker }
    package var failuresInARow: Int { engine.caller.limiter.failuresInARow }
    package var refusesCallsFor: Duration? { engine.caller.limiter.refusesFor }
    package var places: Int { engine.caller.limiter.places }
    package var identities: [(client: ClientName, identity: ClientIdentity)] { engine.identities }
    package var warnings: [String] { engine.watch.warnings }
    package func probe() async -> [ProbeResult] { await engine.probe(keysToo: probesKeys) }
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

/// One client as the engine works with it.
struct EngineClient: Sendable {
    let settings: ClientSettings
    let authenticator: ClientAuthenticator
    /// The endpoint at which the configuration has its grants revoked.
    let revocation: EndpointURL?
    /// Connections of its own; nil where its calls are made as everybody's.
    let connections: ClientConnections?
    /// Makes its calls.
    var caller: ProviderCaller
    /// The certificate that these calls show.
    var certificate: ClientCertificate? { caller.shown?.certificate }
    var profile: ClientProfile { settings.profile }
    var wire: WireSettings { settings.wire }

    /// Throws where an answer refuses the certificate: what was sent with it was not looked at, and is as good as it was.
    func requireCertificate(_ answer: ProviderAnswer) throws(ProviderFailure) {
        guard certificate != nil else { return }
        let proves = authenticator.isByCertificate
        guard
            CertificateRefusal.isPage(answer)
                || proves && [400, 401].contains(answer.status) && answer.object?["error"]?.string == "invalid_client"
        else { return }
        caller.refused("status \(answer.status)")
        throw .retryable(status: answer.status, retryAfter: nil, detail: "the server refuses our certificate")
    }

    /// Returns tokens as bound to the certificate that was shown for them, where they are to be.
    func bound(_ tokens: TokenSet, isCertified: Bool = false) -> TokenSet {
        guard profile.senderConstraint == .mtls || isCertified else { return tokens }
        return tokens.bound(to: certificate?.thumbprint)
    }
}
