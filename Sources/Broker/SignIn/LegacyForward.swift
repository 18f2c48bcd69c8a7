/// Plans the move of a session from the old system (`move_in`).
struct LegacyForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange, whose key comes from the provider and the legacy token.
    ///
    /// Therefore each legacy token is moved only one time, with any client.
    func plan(_ legacy: LegacyToken, _ input: ForwardCodeInput) async throws(BrokerProblem) -> ExchangePlan {
        guard let name = input.provider else { throw Self.refusal(FieldFault("/provider", .required)) }
        guard let provider = context.providers[name] else { throw BrokerProblem(.providerNotFound) }
        let client = try StartLogin.client(input.client, of: provider.profile)
        let key = legacy.token.map { context.vault.index(.legacyToken, [name.text, $0.reveal()]) }
        let refusal = try await ImportWindow(context: context).refusal(
            isOffered: client.moveIn != nil && provider is any LegacyClaiming, until: client.moveIn?.until, key: key)
        if input.scope != nil { throw Self.refusal(FieldFault("/scope", .notAllowed)) }
        guard let token = legacy.token, let key else { throw Self.refusal(FieldFault("/legacy/token", .required)) }
        return ExchangePlan(
            key: key, proof: try LoginToken.checked(input.loginToken), starterSecret: input.loginToken ?? token,
            gate: .none, provider: provider, client: client, call: .legacy(token, legacy.way),
            importRefusal: refusal, device: input.device, presentedSession: input.presentedSession,
            loginToken: input.loginToken, charge: input.charge,
            binding: try SignInProof(context: context).look(input.evidence, of: client, at: name))
    }

    private static func refusal(_ fault: FieldFault) -> BrokerProblem {
        BrokerProblem(.invalidRequest, with: .fields([fault]))
    }
}
