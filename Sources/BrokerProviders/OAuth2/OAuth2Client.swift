package import Broker

/// A provider of kind `oauth2`: plain OAuth 2.0, whose own API identifies the user (SEC-34).
package struct OAuth2Client: EngineBacked, CodeExchanging, TokenExchanging, TokenRevoking, SessionEnding, IDTokenTaking,
    EndpointOwning, CertificateShowing
{
    package let engine: OAuthEngine
    package var probesKeys: Bool { false }

    init(_ settings: ProviderSettings, environment: ProviderEnvironment) throws {
        let name = settings.name
        if !settings.discovery {
            guard settings.endpoints.authorization != nil, settings.endpoints.token != nil else {
                throw CatalogueFailure(
                    "providers.\(name): oauth2 without discovery needs endpoints.authorization and .token")
            }
            for client in settings.clients where client.wire.identity.url == nil && settings.endpoints.userinfo == nil {
                throw CatalogueFailure("providers.\(name): oauth2 needs identity.url or endpoints.userinfo")
            }
        }
        for client in settings.clients where client.wire.identity.source == .idToken {
            throw CatalogueFailure("providers.\(name): identity.source id_token is for kind oidc")
        }
        engine = try OAuthEngine(settings, environment: environment)
    }

    package func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        try await engine.start(request, openID: false, by: deadline)
    }

    package func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await engine.redeem(grant, verifiesIDToken: false, by: deadline)
    }

    package func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let client = try engine.client(context.client, showing: tokens.certificate)
        let settings = client.wire.identity
        guard
            let url =
                if let configured = settings.url { configured } else {
                    try await engine.metadata(for: client).usable(.userinfo)
                }
        else {
            throw .unusable(detail: "no identity endpoint is known")
        }
        let object = try await engine.resource(
            url, method: settings.method, token: tokens.accessToken, provedBy: context.proof,
            subject: settings.subject ?? "/sub", again: context.secondRead, client: client, by: deadline)
        var claims = IdentityMapper.claims(object, settings.claims ?? IdentitySettings.standardClaims)
        if let emails = settings.emailsURL {
            claims = await engine.withPrimaryEmail(
                claims, from: emails, token: tokens.accessToken, provedBy: context.proof, client: client, by: deadline)
        }
        return ProviderIdentity(
            subject: try IdentityMapper.subject(object, at: settings.subject ?? "/sub"), claims: claims,
            unverified: IdentityMapper.unverified(context, keeping: client.profile.callbackParameters))
    }

    package func takesIDTokens(of client: ClientName) -> Bool {
        guard let client = try? engine.client(client) else { return false }
        return client.wire.idToken.issuer != nil && (engine.settings.discovery || engine.settings.endpoints.jwks != nil)
    }

    /// Verifies an id_token from an SDK; its `sub` is the user's id in the API (Facebook's Limited Login).
    package func identify(
        _ token: HandedIDToken, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let client = try engine.client(token.client)
        guard let issuer = client.wire.idToken.issuer else {
            throw .identityRejected(detail: "id_token: no issuer is configured")
        }
        let claims = try await engine.verified(token, issuer: issuer, client: client, mayFetchKeys: mayFetchKeys)
        let context = IdentityContext(client: token.client, nonce: .none, callback: [], requestedScope: [])
        // The configured pointers apply only to the API's answer, so read the standard claims from the id_token.
        return try OIDCIdentity.identity(
            claims, dressedBy: claims, context: context, client: client, subject: "/sub",
            names: IdentitySettings.standardClaims)
    }

    /// Returns `absent`, because an id_token in the answer of a plain OAuth 2.0 provider is not trusted.
    package func subjectOfRefreshed(
        _ tokens: TokenSet, before: TokenSet, client: ClientName
    ) async throws(ProviderFailure) -> RefreshedSubject {
        .absent
    }
}
