package import Broker

extension OAuthEngine {
    /// Refreshes an app's refresh token with this client's id and authentication.
    ///
    /// With `verifiesIDToken`, the provider's keys are fetched first. If the fetch fails, the app's token stays unspent.
    func takeOver(
        _ imported: ImportRequest, verifiesIDToken: Bool, by deadline: Duration
    ) async throws(ProviderFailure) -> TokenSet {
        guard let posted = imported.tokens.refreshToken else { throw .notSent(detail: "the refresh token is missing") }
        if verifiesIDToken {
            try await beforeSending { () async throws(ProviderFailure) in try await keys.warm() }
        }
        var request = RefreshRequest(
            client: imported.client, refreshToken: posted, accessToken: Secret(""),
            idempotencyKey: imported.idempotencyKey)
        request.isImport = true
        request.proof = imported.proof
        request.usesNonces = imported.usesNonces
        var tokens: TokenSet
        do throws(ProviderFailure) { tokens = try await refresh(request, by: deadline) } catch {
            // The server may have spent the token before it asked for another nonce.
            if case .rejected(let refusal) = error, refusal.isInvalidGrant, request.sending.mayBeSpent {
                throw .lost(detail: "the server asked for another nonce, and then refused the token")
            }
            throw error
        }
        // If the answer lacks a refresh token, the former one stays good (RFC 6749 section 6).
        if tokens.refreshToken == nil { tokens.refreshToken = posted }
        return tokens
    }

    /// Returns the fault of an import's members, for a provider whose tokens are refreshed.
    ///
    /// `issuers` are the issuers whose id_tokens the app may send along.
    func importFault(_ tokens: ImportedTokens, client: ClientName, issuers: [String]) -> FieldFault? {
        if tokens.refreshToken == nil { return FieldFault("/tokens/refresh_token", .required) }
        if tokens.merchantID != nil { return FieldFault("/tokens/merchant_id", .notAllowed) }
        guard let idToken = tokens.idToken else { return nil }
        guard !issuers.isEmpty else { return FieldFault("/tokens/id_token", .notAllowed) }
        guard let client = try? self.client(client), let claims = Self.claims(of: idToken),
            issuers.contains(where: { rules($0, client).isFor(claims) })
        else { return FieldFault("/tokens/id_token", .malformed) }
        return nil
    }

    private func rules(_ issuer: String, _ client: EngineClient) -> IDTokenRules {
        var rules = IDTokenRules(issuer: issuer, clientID: client.settings.clientID, settings: client.wire.idToken)
        rules.otherClientIDs = client.settings.trustedAudiences
        return rules
    }

    /// Throws if the app's id_token is of another user than the provider's answer.
    ///
    /// The app's token is only compared, so its signature and its expiry are left unchecked.
    func compare(
        _ imported: ImportedTokens, with subject: String, at pointer: String
    ) throws(ProviderFailure) {
        guard let idToken = imported.idToken else { return }
        guard let claims = Self.claims(of: idToken),
            try IdentityMapper.subject(claims, at: pointer).hasBytes(of: subject)
        else { throw .identityRejected(detail: "the app's id_token is another user's") }
    }

    /// Returns the claims of an app's id_token; nil unless it is a signed token of at most 16 KiB.
    private static func claims(of idToken: Secret) -> JSONObject? {
        try? CompactToken(idToken.reveal(), allowed: SignatureAlgorithm.allCases, types: ["jwt"]).claims
    }
}

extension TokenImporting where Self: EngineBacked {
    package var spendsImportedTokens: Bool { true }

    package func clientID(of client: ClientName) -> String { (try? engine.client(client).settings.clientID) ?? "" }
}
