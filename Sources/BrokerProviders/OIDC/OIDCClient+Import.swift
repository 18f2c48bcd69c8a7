package import Broker

extension OIDCClient: TokenImporting {
    package func importFault(_ tokens: ImportedTokens, client: ClientName) -> FieldFault? {
        let sdk = (try? engine.client(client))?.wire.idToken.issuer
        return engine.importFault(
            tokens, client: client, issuers: [engine.settings.issuer, sdk].compactMap(\.self))
    }

    package func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await engine.takeOver(request, verifiesIDToken: true, by: deadline)
    }

    /// Reads the user from the id_token of the provider's answer, or else from userinfo.
    package func identifyImported(
        _ tokens: TokenSet, of imported: ImportedTokens, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let client = try engine.client(context.client, showing: tokens.certificate)
        let identity: ProviderIdentity
        if let idToken = tokens.idToken {
            // The `iat` may be the sign-in's, because some servers return the first id_token again. Other servers answer a
            // repeated refresh with the first access token and a new id_token, so `at_hash` is wrong. The check is optional
            // for an id_token of the token endpoint (OpenID Connect Core section 3.1.3.6), and the import would be lost.
            let claims = try await engine.verifiedIDToken(
                idToken, client: client,
                IDTokenRules.Expectation(
                    nonce: .none, accessToken: nil, demands: SignInDemands(), isFresh: false))
            identity = try await OIDCIdentity.make(
                claims, tokens: tokens, context: context, client: client, engine: engine, by: deadline)
        } else {
            identity = try await userinfo(tokens, context, client, by: deadline)
        }
        try engine.compare(imported, with: identity.subject, at: client.wire.identity.subject ?? "/sub")
        return identity
    }

    private func userinfo(
        _ tokens: TokenSet, _ context: IdentityContext, _ client: EngineClient, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let settings = client.wire.identity
        let fixed = settings.source == .userinfo ? settings.url : nil
        guard let url = if let fixed { fixed } else { try await engine.metadata(for: client).usable(.userinfo) } else {
            throw .identityRejected(detail: "the id_token is missing, and the userinfo endpoint is unknown")
        }
        let pointer = settings.subject ?? "/sub"
        let object = try await engine.resource(
            url, method: settings.method, token: tokens.accessToken, provedBy: context.proof, subject: pointer,
            again: context.secondRead, client: client, by: deadline)
        var identity = ProviderIdentity(
            subject: try IdentityMapper.subject(object, at: pointer),
            claims: IdentityMapper.claims(object, settings.claims ?? IdentitySettings.standardClaims))
        guard settings.source == .api, let api = settings.url else { return identity }
        let further = try await engine.resource(
            api, method: settings.method, token: tokens.accessToken, provedBy: context.proof, subject: pointer,
            again: context.secondRead, client: client, by: deadline)
        identity.claims = IdentityMapper.merged(
            IdentityMapper.claims(further, settings.claims ?? IdentitySettings.standardClaims), with: identity.claims)
        return identity
    }
}
