/// Plans the import of tokens that an app already holds.
struct ImportForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange, whose key comes from the provider and the refresh token, or else from the access token.
    ///
    /// Therefore each of these tokens is imported only one time, with any client.
    ///
    /// The client of a trial may have `move_in` instead of `import_tokens`, because the broker makes the same refresh for both. A
    /// trial ends before its session is made, so the proof of a device's key is superfluous.
    func plan(
        _ tokens: ImportedTokens, _ input: ForwardCodeInput, trial: ImportTrial? = nil
    ) async throws(BrokerProblem) -> ExchangePlan {
        guard let name = input.provider else { throw Self.refusal(FieldFault("/provider", .required)) }
        guard let provider = context.providers[name] else { throw BrokerProblem(.providerNotFound) }
        let client = try StartLogin.client(input.client, of: provider.profile)
        guard let importing = provider as? any TokenImporting else {
            throw BrokerProblem(.clientNotAllowed, with: .importRefused(.notOpen))
        }
        let key = key(name, tokens)
        let isByOldSystem = trial != nil && !client.importTokens && client.moveIn != nil
        let refusal = try await ImportWindow(context: context).refusal(
            isOffered: client.importTokens || isByOldSystem,
            until: isByOldSystem ? client.moveIn?.until : client.importsUntil, key: key)
        if let fault = importing.importFault(tokens, client: client.name) { throw Self.refusal(fault) }
        if input.scope != nil { throw Self.refusal(FieldFault("/scope", .notAllowed)) }
        guard let key else { throw Self.refusal(FieldFault("/tokens/refresh_token", .required)) }
        return ExchangePlan(
            key: key, proof: try LoginToken.checked(input.loginToken),
            starterSecret: input.loginToken ?? tokens.refreshToken ?? tokens.accessToken, gate: .none,
            provider: provider, client: client,
            call: .importTokens(tokens), importRefusal: refusal, device: input.device,
            presentedSession: input.presentedSession,
            loginToken: input.loginToken,
            charge: input.charge,
            binding: trial == nil
                ? try SignInProof(context: context).look(input.evidence, of: client, at: name) : .none,
            trial: trial)
    }

    /// Returns the key of the exchange; nil if both tokens are missing.
    private func key(_ provider: ProviderName, _ tokens: ImportedTokens) -> Digest? {
        if let refreshToken = tokens.refreshToken { return Self.key(provider, refreshToken: refreshToken, context) }
        // If the refresh token is missing, the key contains the merchant. Otherwise, a refused import with a wrong merchant would
        // block the import with the right one.
        return tokens.accessToken.map {
            context.vault.index(.importedTokens, [provider.text, $0.reveal(), tokens.merchantID ?? ""])
        }
    }

    /// Returns the key of the exchange of a refresh token, whichever way the token came.
    static func key(_ provider: ProviderName, refreshToken: Secret, _ context: BrokerContext) -> Digest {
        context.vault.index(.importedTokens, [provider.text, refreshToken.reveal()])
    }

    private static func refusal(_ fault: FieldFault) -> BrokerProblem {
        BrokerProblem(.invalidRequest, with: .fields([fault]))
    }
}
