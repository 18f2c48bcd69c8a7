/// Plans the exchange of an id_token that a native SDK gave the app.
///
/// The token is verified before a row is stored. An invalid token can cause only a call that fetches the provider's newer
/// keys, and this call is charged.
struct IDTokenForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange, keyed by the signed part of the token.
    ///
    /// Anyone can make a second valid ECDSA signature from the first one. If the key included the signature, the same token
    /// could be used twice.
    func plan(_ token: Secret, _ input: ForwardCodeInput) async throws(BrokerProblem) -> ExchangePlan {
        guard let name = input.provider else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/provider", .required)]))
        }
        guard let provider = context.providers[name] else { throw BrokerProblem(.providerNotFound) }
        let client = try StartLogin.client(input.client, of: provider.profile)
        guard client.nativeCode, let taking = provider as? any IDTokenTaking, taking.takesIDTokens(of: client.name)
        else { throw BrokerProblem(.clientNotAllowed) }
        let nonce = try Self.nonce(input)
        let binding = try SignInProof(context: context).look(input.evidence, of: client, at: name)
        let proof = try LoginToken.checked(input.loginToken)
        let key = context.vault.index(.idToken, [name.text, Self.signedPart(of: token.reveal())])
        return ExchangePlan(
            key: key, proof: proof, gate: .none, provider: provider, client: client,
            call: .idToken(
                try await identity(
                    HandedIDToken(client: client.name, token: token, nonce: nonce), taking, key, input.charge)),
            device: input.device, presentedSession: input.presentedSession, loginToken: input.loginToken,
            charge: input.charge, binding: binding)
    }

    /// Returns the nonce that ties the token to this attempt of the app; refuses members that belong to other flows.
    private static func nonce(_ input: ForwardCodeInput) throws(BrokerProblem) -> Secret {
        var faults: [FieldFault] = []
        if input.nonce == nil { faults.append(FieldFault("/nonce", .required)) }
        if input.redirectURI != nil { faults.append(FieldFault("/redirect_uri", .notAllowed)) }
        if input.codeVerifier != nil { faults.append(FieldFault("/code_verifier", .notAllowed)) }
        if input.state != nil { faults.append(FieldFault("/state", .notAllowed)) }
        if input.scope != nil { faults.append(FieldFault("/scope", .notAllowed)) }
        guard let nonce = input.nonce, faults.isEmpty else {
            throw BrokerProblem(.invalidRequest, with: .fields(faults))
        }
        return nonce
    }

    private static func signedPart(of token: String) -> String {
        token.lastIndex(of: ".").map { String(token[..<$0]) } ?? token
    }

    /// Charges the exchange and verifies the token; returns nil if an exchange of the token already exists.
    ///
    /// The token may have expired since that exchange was made, so it stays unverified. The outcome is repeated to the starter
    /// only.
    private func identity(
        _ token: HandedIDToken, _ provider: any IDTokenTaking, _ key: Digest, _ charge: Charge
    ) async throws(BrokerProblem) -> ProviderIdentity? {
        let standing: ExchangeRow?
        do throws(StoreFailure) { standing = try await context.store.exchange(key) } catch {
            throw BrokerProblem(error)
        }
        if let standing, standing.outcome != .released { return nil }
        // If the clock is too doubtful to begin a session, it is also too doubtful to judge the token's expiry.
        try context.require(.begin)
        try charge.take(.exchange, for: key, lasting: ChargeLedger.exchangeLifetime)
        let fetch = KeyFetchCharge(charge)
        do throws(ProviderFailure) {
            let identity = try await provider.identify(token) { fetch.take() }
            fetch.giveBack()
            return identity
        } catch {
            // No row was made, so release the share. A repeated forward of the token is charged again.
            charge.drop(.exchange, for: key)
            if let refusal = fetch.refusal { throw refusal }
            throw refusal(error, provider.profile.name, token.client)
        }
    }

    /// Returns the problem of a token whose verification failed or is impossible now, and emits the cause for operators.
    private func refusal(
        _ failure: ProviderFailure, _ provider: ProviderName, _ client: ClientName
    ) -> BrokerProblem {
        context.events.emit(.exchangeFailed(provider: provider, client: client, failure: failure))
        var problem = BrokerProblem(starting: failure)
        // The app brought the token, so the fault is not the provider's.
        if case .identityRejected(let detail, _) = failure {
            problem = BrokerProblem(.codeRejected, privateDetail: detail)
        }
        context.events.emit(
            .loginRefused(
                provider: provider, client: client, code: problem.code, detail: problem.privateDetail ?? ""))
        return problem
    }
}
