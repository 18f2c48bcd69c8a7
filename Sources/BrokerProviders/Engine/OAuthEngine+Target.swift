import Broker

extension OAuthEngine {
    private static let exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"

    /// Makes one token exchange (RFC 8693): sends the session's access token, and returns an access token for another API.
    ///
    /// A token exchange spends no token, so after a lost answer the caller can simply repeat it. If the call has a DPoP proof
    /// of the session's key, the new token must be bound to that key. If the new token is unbound, the returned set has an
    /// empty access token.
    func exchange(_ request: TargetExchange, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        let client = try client(request.client)
        let endpoint = try await beforeSending { () async throws(ProviderFailure) -> EndpointURL in
            guard let url = try await metadata(for: client).usable(.token) else {
                throw .unusable(detail: "no token endpoint is known")
            }
            return url
        }
        let answer = try await post(
            [
                ("grant_type", Self.exchangeGrant), ("subject_token", request.subjectToken.reveal()),
                ("subject_token_type", TokenAnswer.accessTokenType),
                ("requested_token_type", TokenAnswer.accessTokenType),
            ], to: endpoint, as: .token, client: client, provedBy: request.proof, target: request.target, by: deadline)
        let binding = request.proof == nil ? TokenAnswer.Binding.none : .demanded
        var tokens = try answers(client, binding: binding).exchanged(answer, now: clock.now())
        guard let proof = request.proof else { return client.bound(tokens, isCertified: request.isCertified) }
        guard tokens.credential == .dpop else {
            // An empty access token makes the caller wait before it calls the provider again. A refresh that brings an unbound
            // token is treated likewise.
            tokens.accessToken = Secret("")
            tokens.expiresAt = nil
            return tokens
        }
        return keyed(tokens, by: proof, at: endpoint, client: client)
    }
}

extension TokenTarget {
    /// The parameters to send; the scopes are joined by the provider's separator.
    func parameters(scopeSeparator: String) -> [(name: String, value: String)] {
        parameters.map { $0.name == "scope" ? (name: "scope", value: scope.joined(separator: scopeSeparator)) : $0 }
    }
}

extension RefreshRequest {
    /// The idempotency key of this call.
    ///
    /// Refreshes with the same refresh token for several APIs are different calls, so each API needs a key of its own.
    var callKey: String {
        guard let target else { return idempotencyKey }
        return IdempotencyKey.again(idempotencyKey, nonce: "for " + FormPairs.encode(target.parameters))
    }
}

extension TokenAnswer {
    /// The identifier of the token type "access token" (RFC 8693 section 3).
    static let accessTokenType = "urn:ietf:params:oauth:token-type:access_token"

    /// Parses the answer to a token exchange, which names the type of the new token (section 2.2.1).
    ///
    /// A refresh token in the answer belongs to another grant, and an id_token to another sign-in. Both are dropped.
    func exchanged(_ answer: ProviderAnswer, now: WallTime) throws(ProviderFailure) -> TokenSet {
        var tokens = try parse(answer, now: now)
        let whole = AnswerBody.object(answer)
        let object = settings.path.map { whole?.value(at: $0)?.object } ?? whole
        func text(_ name: String) -> String? { object?[settings.fields[name] ?? name]?.string }
        guard text("issued_token_type") == Self.accessTokenType else {
            throw .unusable(detail: "token exchange: issued_token_type is not an access token's")
        }
        guard text("token_type") != nil else { throw .unusable(detail: "token exchange: no token_type") }
        tokens.refreshToken = nil
        tokens.refreshExpiresAt = nil
        tokens.idToken = nil
        return tokens
    }
}
