package import Broker

extension OAuth2Client: TokenImporting {
    package func importFault(_ tokens: ImportedTokens, client: ClientName) -> FieldFault? {
        let sdk = (try? engine.client(client))?.wire.idToken.issuer
        return engine.importFault(tokens, client: client, issuers: [sdk].compactMap(\.self))
    }

    package func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await engine.takeOver(request, verifiesIDToken: false, by: deadline)
    }

    /// Reads the user from the API, as at a sign-in.
    package func identifyImported(
        _ tokens: TokenSet, of imported: ImportedTokens, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let identity = try await identify(tokens, context, by: deadline)
        // The configured pointer applies only to the API's answer.
        try engine.compare(imported, with: identity.subject, at: "/sub")
        return identity
    }
}
