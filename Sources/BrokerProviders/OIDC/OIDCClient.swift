package import Broker

/// A provider of kind `oidc` (OpenID Connect Core 1.0), whose id_token identifies the user.
package struct OIDCClient: EngineBacked, CodeExchanging, TokenExchanging, TokenRevoking, SessionEnding,
    LogoutTokenVerifying, IDTokenTaking, EndpointOwning, CertificateShowing

{
    package let engine: OAuthEngine
    package var probesKeys: Bool { true }

    init(_ settings: ProviderSettings, environment: ProviderEnvironment) throws {
        guard settings.issuer != nil else { throw CatalogueFailure("providers.\(settings.name): oidc needs an issuer") }
        engine = try OAuthEngine(settings, environment: environment)
    }

    package func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        try await engine.start(request, openID: true, by: deadline)
    }

    package func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await engine.redeem(grant, verifiesIDToken: true, by: deadline)
    }

    package func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let client = try engine.client(context.client, showing: tokens.certificate)
        guard let idToken = tokens.idToken else { throw .identityRejected(detail: "the answer has no id_token") }
        let claims = try await engine.verifiedIDToken(
            idToken, client: client,
            IDTokenRules.Expectation(
                nonce: context.nonce, accessToken: tokens.accessToken, demands: engine.demands(context, client),
                isFresh: true))
        return try await OIDCIdentity.make(
            claims, tokens: tokens, context: context, client: client, engine: engine, by: deadline)
    }

    package func takesIDTokens(of client: ClientName) -> Bool { true }

    package func identify(
        _ token: HandedIDToken, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let client = try engine.client(token.client)
        let issuer = client.wire.idToken.issuer ?? engine.settings.issuer ?? ""
        let claims = try await engine.verified(token, issuer: issuer, client: client, mayFetchKeys: mayFetchKeys)
        let context = IdentityContext(client: token.client, nonce: .none, callback: [], requestedScope: [])
        // An id_token from an app comes without an access token, so userinfo is not called.
        return try OIDCIdentity.identity(claims, dressedBy: claims, context: context, client: client)
    }

    package func subjectOfRefreshed(
        _ tokens: TokenSet, before: TokenSet, client: ClientName
    ) async throws(ProviderFailure) -> RefreshedSubject {
        guard let text = tokens.idToken else { return .absent }
        let client = try engine.client(client)
        let token: CompactToken
        do throws(ProviderFailure) {
            token = try CompactToken(
                text.reveal(), allowed: client.wire.idToken.algorithms, types: ["jwt"], bounds: .answered)
            try await engine.keys.verify(token)
        } catch {
            guard case .identityRejected(let detail, _) = error else { throw error }
            return .unverifiable(detail)
        }
        return try refreshed(token, tokens, before, client)
    }

    /// Checks the claims of a refreshed id_token whose signature was verified (OpenID Connect Core 12.2).
    private func refreshed(
        _ token: CompactToken, _ tokens: TokenSet, _ before: TokenSet, _ client: EngineClient
    ) throws(ProviderFailure) -> RefreshedSubject {
        let rules = IDTokenRules(
            issuer: engine.settings.issuer ?? "", clientID: client.settings.clientID, settings: client.wire.idToken)
        if let fault = rules.faultOfRefreshed(token, before: before.idToken) { return .foreign(fault) }
        // Read the subject before the other checks. The caller must notice another user's tokens, even if the id_token then
        // fails a check such as `at_hash`.
        let subject = try? IdentityMapper.subject(token.claims, at: client.wire.identity.subject ?? "/sub")
        do throws(ProviderFailure) {
            try rules.check(
                token,
                IDTokenRules.Expectation(
                    nonce: .none, accessToken: tokens.accessToken.isEmpty ? nil : tokens.accessToken,
                    demands: SignInDemands(), isFresh: false),
                now: engine.clock.now())
            return .subject(try IdentityMapper.subject(token.claims, at: client.wire.identity.subject ?? "/sub"))
        } catch {
            return .unverifiable(error.detail, subject: subject)
        }
    }

    package func verifyLogoutToken(
        _ token: Secret, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> LogoutNotice {
        let wires = engine.settings.clients.map(\.wire.idToken)
        let algorithms = wires.flatMap(\.algorithms)
        // The `typ` of a logout token is `JWT` or `logout+jwt`, and some servers omit `typ` (docs/providers/real-servers.md).
        let parsed = try CompactToken(token.reveal(), allowed: algorithms, types: ["jwt", "logout+jwt"])
        let rules = LogoutTokenRules(
            issuer: engine.settings.issuer ?? "", clients: engine.clientIDs,
            leeway: wires.map(\.leeway).min() ?? .seconds(60))
        _ = try rules.parties(parsed.claims)
        try await engine.keys.verify(parsed, for: .anybody, mayFetch: mayFetchKeys)
        return try rules.check(parsed.claims, now: engine.clock.now())
    }
}
