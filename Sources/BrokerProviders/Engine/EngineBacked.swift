package import Broker

/// A provider whose calls are the engine's, but for those that its kind makes in its own way.
package protocol EngineBacked: ProviderInspection {
    var engine: OAuthEngine { get }

    /// Whether a probe looks at its keys: no login goes without them.
    var probesKeys: Bool { get }
}

extension EngineBacked {
    package var profile: ProviderProfile { engine.profile }
    package var breaker: CircuitBreaker.State { engine.caller.limiter.breaker }
    package var failuresInARow: Int { engine.caller.limiter.failuresInARow }
    package var refusesCallsFor: Duration? { engine.caller.limiter.refusesFor }
    package func probe() async -> [ProbeResult] { await engine.probe(keysToo: probesKeys) }
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
    var profile: ClientProfile { settings.profile }
    var wire: WireSettings { settings.wire }
}
