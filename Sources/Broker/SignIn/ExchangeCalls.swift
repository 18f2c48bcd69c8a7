/// Makes the provider calls of one claimed exchange and hands their results to its settlement.
///
/// The calls go on if the request is cancelled.
struct ExchangeCalls: Sendable {
    private let context: BrokerContext
    private let exchange: GrantedExchange
    private let settlement: ExchangeSettlement

    /// Creates the calls of an exchange; `early` answers the starter if the store takes too long to accept the result.
    init(_ exchange: GrantedExchange, early: @escaping @Sendable (ExchangeSettlement.Answer) -> Void) {
        context = exchange.claim.context
        self.exchange = exchange
        settlement = ExchangeSettlement(exchange, early: early)
    }

    private var plan: ExchangePlan { exchange.plan }
    private var profile: ProviderProfile { plan.provider.profile }

    /// Calls the provider and settles the exchange.
    ///
    /// Returns the starter's answer. If the store takes too long to accept the result, `early` has already answered the
    /// starter.
    func call() async -> ExchangeSettlement.Answer {
        context.memory.exchanges.begin(plan.key)
        defer { context.memory.exchanges.end(plan.key) }
        return await exchange.claim.whileRenewing {
            let result = await settled()
            // Answer at once. `whileRenewing` returns only after a renewal in progress, and that renewal may wait for a
            // silent connection.
            settlement.early(result)
            return result
        }
    }

    private func settled() async -> ExchangeSettlement.Answer {
        do throws(BrokerProblem) { return .success(try await perform()) } catch {
            // The exchange that this one is a part of reports the refusal, and a trial reports it to its operator.
            guard plan.endsBy == nil, plan.trial == nil else { return .failure(error) }
            context.events.emit(
                .loginRefused(
                    provider: profile.name, client: plan.client.name, code: error.code,
                    detail: error.privateDetail ?? ""))
            return .failure(error)
        }
    }

    private func perform() async throws(BrokerProblem) -> SignInOutcome {
        switch plan.call {
        case .code(let grant, let identity): return try await redeem(grant, identity)
        case .zephrSession(let session): return try await takeOver(session)
        case .zephrPartial(let stateKey, let identifier): return try await hold(stateKey, identifier)
        case .register(let request): return try await register(request)
        case .importTokens(let tokens): return try await ImportCalls(exchange, settlement).run(tokens)
        case .legacy(let token, _): return try await LegacyCalls(exchange, settlement).run(token)
        case .idToken(let identity): return try await takeIDToken(identity)
        }
    }

    // MARK: The calls

    /// Returns the proof maker for the key that the code's tokens are to be bound to.
    ///
    /// If the broker started the login, the login's own key is used. If the app started the login, the key is derived from
    /// the code, so every attempt has the same key.
    private func proof(of grant: CodeGrant) async throws(BrokerProblem) -> ProofMaker? {
        if let proof = grant.proof { return proof }
        guard plan.client.senderConstraint == .dpop else { return nil }
        let seed = context.vault.index(.tokenKey, ["code", profile.name.text, grant.code.reveal()])
        do throws(VaultFailure) {
            return ProofMaker(try context.vault.proofKeyPair(seed: seed.bytes), context.vault, context.clock)
        } catch {
            throw await settlement.release(
                .notSent(detail: "the vault could not make a key for the tokens"), counting: false)
        }
    }

    private func redeem(
        _ asked: CodeGrant, _ expected: IdentityContext
    ) async throws(BrokerProblem) -> SignInOutcome {
        let proof = try await proof(of: asked)
        var (grant, identity) = (asked, expected)
        (grant.proof, identity.proof) = (proof, proof)
        return try await redeem(grant, as: identity)
    }

    private func redeem(
        _ grant: CodeGrant, as identity: IdentityContext
    ) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any CodeExchanging else {
            throw await settlement.spend(
                .providerError, because: .unusable(detail: "this kind of provider redeems no codes"))
        }
        let tokens: TokenSet
        let begun = context.clock.monotonic()
        do throws(ProviderFailure) { tokens = try await provider.redeem(grant, by: exchange.deadline) } catch {
            throw await settlement.settleFailure(error)
        }
        let answered = context.clock.monotonic()
        context.memory.answers.granted(profile.name, plan.client.name, begun: begun)
        if let refusal = tokens.refusal {
            throw await settlement.spendRevoking(
                .providerError, because: .unusable(detail: refusal), revoking: await settlement.unheld(tokens))
        }
        let who: ProviderIdentity
        var new = identity
        new.secondRead = SecondRead()
        let read = new
        do throws(ProviderFailure) {
            who = try await exchange.reading { () async throws(ProviderFailure) in
                try await provider.identify(tokens, read, by: exchange.deadline)
            }
        } catch {
            throw await settlement.settleIdentityFailure(error, tokens)
        }
        return try await settlement.complete(tokens, who, identity.requestedScope, answered: answered)
    }

    private func takeOver(_ session: Secret) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any PartialRegistering else {
            throw await settlement.spend(
                .providerError, because: .unusable(detail: "this kind of provider has no sessions of its own"))
        }
        let identity: ProviderIdentity
        do throws(ProviderFailure) { identity = try await provider.account(of: session, by: exchange.deadline) } catch {
            // The look-up leaves the Zephr session unchanged, so the look-up may be repeated after a lost response.
            if case .lost(let detail) = error {
                throw await settlement.release(.retryable(status: 0, retryAfter: nil, detail: detail), counting: true)
            }
            throw await settlement.settleFailure(error)
        }
        let end = context.clock.now().advanced(by: provider.sessionLifetime)
        return try await settlement.complete(
            TokenSet(credential: .zephrCookie, accessToken: session, expiresAt: end), Self.named(identity, session), [])
    }

    /// Returns the identity with the Zephr session's id as its `sid`.
    ///
    /// Several sessions of the broker may hold the same Zephr session. The `sid` connects them, because only the last of them
    /// may end the Zephr session.
    private static func named(_ identity: ProviderIdentity, _ session: Secret) -> ProviderIdentity {
        var named = identity
        named.sid = session.reveal()
        return named
    }

    private func hold(_ stateKey: Secret, _ identifier: String?) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any PartialRegistering else {
            throw await settlement.spend(
                .providerError, because: .unusable(detail: "this kind of provider has no registrations"))
        }
        let key = context.vault.index(.stateKey, [profile.name.text, stateKey.reveal()])
        try await takeShare(of: key)
        let fields: [RegistrationField]
        do throws(ProviderFailure) { fields = try await provider.registrationFields() } catch {
            plan.charge.drop(.registration, for: key)
            // The exchange and its gate are released, so the app can forward the callback again.
            throw await settlement.release(error, counting: false)
        }
        let now = context.clock.now()
        let secrets = RegistrationSecrets(
            provider: profile.name, client: plan.client.name, stateKey: stateKey, identifier: identifier,
            fields: fields, device: plan.device, thumbprint: plan.binding.thumbprint)
        let expiresAt = now.advanced(by: context.settings.registrationLifetime)
        do {
            let registration = RegistrationRow(
                key: key, loginTokenDigest: plan.proof.map(context.vault.digest), createdAt: now, expiresAt: expiresAt,
                sealed: try context.vault.seal(secrets.record, as: .registration, row: key))
            try await settlement.keep(registration)
        } catch { throw BrokerProblem(storing: error) }
        return .registrationRequired(secrets.view(expiresAt: expiresAt))
    }

    /// Counts a registration in the share of its address; its cost is already part of the login's or exchange's charge.
    ///
    /// If the share is used up, the app can forward the callback again later.
    private func takeShare(of registration: Digest) async throws(BrokerProblem) {
        let payer = if case .login(let login) = plan.gate { login } else { exchange.row.key }
        do throws(BrokerProblem) {
            try plan.charge.take(
                .registration, for: registration, lasting: context.settings.registrationLifetime, paidBy: payer)
        } catch {
            _ = await settlement.release(
                .notSent(detail: "the caller's share of registrations is used up"), counting: false)
            throw error
        }
    }

    private func register(
        _ request: RegistrationRequest
    ) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any PartialRegistering else {
            throw await settlement.spend(
                .providerError, because: .unusable(detail: "this kind of provider has no registrations"))
        }
        let outcome: RegistrationOutcome
        do throws(ProviderFailure) { outcome = try await provider.register(request, by: exchange.deadline) } catch {
            throw await settlement.settleFailure(error)
        }
        switch outcome {
        case .registered(let session, let expiresAt):
            let tokens = TokenSet(credential: .zephrCookie, accessToken: session, expiresAt: expiresAt)
            let who: ProviderIdentity
            do throws(ProviderFailure) {
                who = try await exchange.reading { () async throws(ProviderFailure) in
                    try await provider.account(of: session, by: exchange.deadline)
                }
            } catch { throw await settlement.settleIdentityFailure(error, tokens) }
            return try await settlement.complete(tokens, Self.named(who, session), [])
        case .badAttributes: throw await settlement.spendRegistration(.registrationRejected, result: "bad_attributes")
        case .userExists: throw await settlement.spendRegistration(.registrationUserExists, result: "user_exists")
        case .emailDomainDenied:
            throw await settlement.spendRegistration(.registrationDomainDenied, result: "email_domain_denied")
        case .stateInvalid: throw await settlement.spendRegistration(.registrationKeyExpired, result: "state_invalid")
        case .rateLimited(let retryAfter):
            throw await settlement.release(
                .retryable(status: 429, retryAfter: retryAfter ?? .seconds(30), detail: "register"), counting: true)
        }
    }

    private func takeIDToken(
        _ identity: ProviderIdentity?
    ) async throws(BrokerProblem) -> SignInOutcome {
        guard let identity else {
            // When the app sent the token, an exchange of the token still existed, so the token was left unverified. That
            // exchange has been removed meanwhile. Release the new exchange, so that the next forward verifies the token.
            throw await settlement.release(
                .notSent(detail: "the id_token was not verified, because its exchange existed a moment before"),
                counting: false)
        }
        return try await settlement.complete(nil, identity, [])
    }
}
