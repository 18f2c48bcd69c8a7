package import Broker

/// A provider of kind `clever`.
///
/// It never refreshes and revokes nothing: neither call exists there.
package struct CleverClient: CodeExchanging {
    let engine: OAuthEngine
    let own: CleverSettings
    private let api: String
    package var profile: ProviderProfile { engine.profile }

    init(_ settings: ProviderSettings, _ own: CleverSettings, environment: ProviderEnvironment) throws {
        let wired = CleverWire.settings(settings, own)
        var engine = try OAuthEngine(wired, environment: environment)
        engine.dialect = CleverWire.dialect
        self.engine = engine
        self.own = own
        api = wired.endpoints.api ?? ""
    }

    package func startAuthorization(_ request: AuthorizationRequest) async throws(ProviderFailure) -> AuthorizationStart
    {
        var start = try await engine.start(request, openID: false)
        if let version = try engine.client(request.client).settings.appStart {
            start.appURL = Secret(CleverWire.appURL(start.url.reveal(), sdkVersion: version))
        }
        return start
    }

    package func issuerExpectation() async throws(ProviderFailure) -> IssuerExpectation {
        engine.expectation(try await engine.metadata())
    }

    package func redeem(_ grant: CodeGrant) async throws(ProviderFailure) -> TokenSet {
        try await ProviderCaller.within(grant.deadline) { () async throws(ProviderFailure) -> TokenSet in
            try await engine.redeem(grant, verifiesIDToken: own.openID)
        }
    }

    package func identify(_ tokens: TokenSet, _ context: IdentityContext) async throws(ProviderFailure)
        -> ProviderIdentity
    {
        try await ProviderCaller.within(context.deadline) { () async throws(ProviderFailure) -> ProviderIdentity in
            let client = try engine.client(context.client)
            let unverified = IdentityMapper.unverified(context, keeping: client.profile.callbackParameters)
            if own.openID {
                let (subject, claims) = try await openIDIdentity(tokens, context, client)
                return ProviderIdentity(subject: subject, claims: claims, unverified: unverified)
            }
            let me = try await get("/v3.0/me", tokens, client)
            let id = try CleverIdentity.id(me)
            let person = try await get(CleverIdentity.profilePath(me, id: id), tokens, client)
            guard try CleverIdentity.id(person) == id else {
                throw .identityRejected(detail: "Clever: the profile is another user's")
            }
            return ProviderIdentity(
                subject: id, claims: CleverIdentity.claims(me: me, profile: person), unverified: unverified)
        }
    }

    private func openIDIdentity(
        _ tokens: TokenSet, _ context: IdentityContext, _ client: EngineClient
    ) async throws(ProviderFailure) -> (String, [(name: String, value: JSONValue)]) {
        guard let idToken = tokens.idToken else { throw .identityRejected(detail: "the answer has no id_token") }
        let claims = try await engine.verifiedIDToken(
            idToken, client: client,
            IDTokenRules.Expectation(
                nonce: context.nonce, accessToken: tokens.accessToken, demands: engine.demands(context, client),
                isFresh: true))
        let subject = try IdentityMapper.subject(claims, at: "/sub", acceptsNumbers: false)
        let userinfo = try await get("/userinfo", tokens, client)
        guard userinfo["sub"]?.string?.hasBytes(of: subject) == true else {
            throw .identityRejected(detail: "userinfo: sub is not the id_token's")
        }
        return (subject, CleverIdentity.claims(userinfo: userinfo))
    }

    private func get(
        _ path: String, _ tokens: TokenSet, _ client: EngineClient
    ) async throws(ProviderFailure) -> JSONObject {
        guard let url = EndpointURL(api + path) else { throw .unusable(detail: "Clever: no API address") }
        return try await engine.resource(url, token: tokens.accessToken, client: client)
    }
}
