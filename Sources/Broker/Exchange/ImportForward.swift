/// Takes tokens that an app already holds (Clover's PartialOAuth), once.
struct ImportForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange: keyed by the refresh token, so that a pair is imported once.
    func plan(_ input: ForwardCodeInput) throws(BrokerProblem) -> ExchangePlan {
        guard let name = input.provider else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault("/provider", .required)])
        }
        guard let provider = context.providers[name] else { throw BrokerProblem(.providerNotFound) }
        let client = try StartLogin.client(input.client, of: provider.profile)
        guard client.importTokens, provider is any TokenImporting, let tokens = input.tokens else {
            throw BrokerProblem(.clientNotAllowed)
        }
        return ExchangePlan(
            key: context.vault.index(.importedTokens, [name.text, tokens.refreshToken.reveal()]),
            proof: try LoginToken.checked(input.loginToken), gate: .none, provider: provider, client: client,
            call: .importTokens(tokens), device: input.device, presentedSession: input.presentedSession,
            loginToken: input.loginToken,
            charge: input.charge)
    }
}
