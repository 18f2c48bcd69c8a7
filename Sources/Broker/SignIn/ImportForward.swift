/// Plans the import of tokens that an app already holds (Clover's PartialOAuth, Clever's SDK 1.x).
struct ImportForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange, whose key comes from the refresh token, or else from the access token.
    ///
    /// Therefore each of these tokens is imported only one time.
    func plan(_ tokens: ImportedTokens, _ input: ForwardCodeInput) throws(BrokerProblem) -> ExchangePlan {
        guard let name = input.provider else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/provider", .required)]))
        }
        guard let provider = context.providers[name] else { throw BrokerProblem(.providerNotFound) }
        let client = try StartLogin.client(input.client, of: provider.profile)
        guard client.importTokens, let importing = provider as? any TokenImporting else {
            throw BrokerProblem(.clientNotAllowed)
        }
        if let fault = importing.importFault(tokens) { throw BrokerProblem(.invalidRequest, with: .fields([fault])) }
        if input.scope != nil {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/scope", .notAllowed)]))
        }
        // Without a refresh token, the key contains the merchant. Otherwise, a refused import with a wrong merchant would
        // block the import with the right one.
        let once =
            tokens.refreshToken.map { [name.text, $0.reveal()] }
            ?? [name.text, tokens.accessToken.reveal(), tokens.merchantID ?? ""]
        return ExchangePlan(
            key: context.vault.index(.importedTokens, once),
            proof: try LoginToken.checked(input.loginToken),
            starterSecret: input.loginToken ?? tokens.refreshToken ?? tokens.accessToken, gate: .none,
            provider: provider, client: client,
            call: .importTokens(tokens), device: input.device, presentedSession: input.presentedSession,
            loginToken: input.loginToken,
            charge: input.charge,
            binding: try SignInProof(context: context).look(input.evidence, of: client, at: name))
    }
}
