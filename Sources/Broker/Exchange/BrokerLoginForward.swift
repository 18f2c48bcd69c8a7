/// Finishes a login that the broker started (flow A): the callback is checked against the pending login, in the order
/// that gives an attacker least.
struct BrokerLoginForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange to run, or throws what is wrong with the callback, of which operators are told.
    ///
    /// No provider is called here.
    func plan(
        target: String, parameters: FormPairs, login row: LoginRow, input: ForwardCodeInput
    ) async throws(BrokerProblem) -> ExchangePlan {
        let secrets = try LoginSecrets.open(row, context)
        do throws(BrokerProblem) {
            return try await plan(secrets, target: target, parameters: parameters, login: row, input: input)
        } catch {
            // Who finishes a login of somebody else's that still waits burns it, and is told of as that.
            if error.code != .loginNotYours || row.status != .pending {
                context.events.emit(
                    .loginRefused(
                        provider: secrets.provider, client: secrets.client, code: error.code,
                        detail: error.privateDetail ?? ""))
            }
            throw error
        }
    }

    private func plan(
        _ secrets: LoginSecrets, target: String, parameters: FormPairs, login row: LoginRow, input: ForwardCodeInput
    ) async throws(BrokerProblem) -> ExchangePlan {
        guard let provider = context.providers[secrets.provider],
            let client = provider.profile.client(secrets.client)
        else { throw BrokerProblem(.clientNotAllowed, privateDetail: "the login's client is configured no more") }
        if input.provider.map({ $0 != secrets.provider }) ?? false {
            throw BrokerProblem(.stateMismatch, privateDetail: "another provider's login")
        }
        if input.client.map({ $0 != secrets.client }) ?? false {
            throw BrokerProblem(.stateMismatch, privateDetail: "another client's login")
        }
        guard RedirectURI.areSame(target, secrets.redirectURI) else {
            throw BrokerProblem(.invalidCallback, privateDetail: "not the login's redirect URI")
        }
        let code = parameters["code"].flatMap { $0.isEmpty ? nil : Secret($0) }
        let key = code.map { context.vault.index(.code, [secrets.provider.text, $0.reveal()]) }
        try await checkStarter(row, secrets, key: key, loginToken: input.loginToken)
        let binding = try await binding(row, secrets, client, input)
        if let session = secrets.stepUp?.session { try await checkSession(session, row, secrets, input) }
        if row.status != .pending {
            // Used: only the very exchange that used it may be asked for again.
            guard let key, row.exchange == key else { throw BrokerProblem(.stateMismatch) }
        } else if row.expiresAt <= context.clock.now() {
            throw BrokerProblem(.loginExpired)
        }
        let error = CallbackError(parameters)
        try CallbackIssuer(context: context).check(
            parameters, secrets.issuer, provider: secrets.provider, client: secrets.client,
            succeeded: code != nil && error == nil)
        if let error {
            _ = await burn(row)
            throw problem(of: error, secrets)
        }
        guard let code, let key else {
            throw BrokerProblem(.invalidCallback, privateDetail: "a callback without a code")
        }
        let verifier = try checkVerifier(secrets, client, input)
        if let state = input.state, context.vault.digest(state) != row.state {
            throw BrokerProblem(.stateMismatch)
        }
        var expected = secrets.demands
        // What the app demands is judged where the answer can say what was lacking.
        if secrets.stepUp != nil { (expected.maximumAge, expected.contextClasses) = (nil, []) }
        let isStepUp = secrets.stepUp?.session != nil
        var identity = IdentityContext(
            client: client.name, nonce: secrets.nonce.map { .exactly($0) } ?? .none,
            callback: parameters.providersOwn, requestedScope: client.assumesScope ? secrets.scope : [],
            demands: expected)
        identity.isStepUp = isStepUp
        var grant = CodeGrant(
            client: client.name, code: code, redirect: .uri(secrets.redirectURI), verifier: verifier,
            idempotencyKey: Base64URL.encode(key.bytes),
            proof: secrets.key.map { ProofMaker($0, context.vault, context.clock) })
        grant.isOfOwnRequest = true
        var plan = ExchangePlan(
            key: key, proof: input.loginToken, gate: .login(row.state), provider: provider, client: client,
            call: .code(grant, identity),
            // A session that is stepped up is the one that is kept.
            device: input.device, presentedSession: isStepUp ? nil : input.presentedSession,
            loginToken: input.loginToken, charge: input.charge, binding: binding)
        plan.stepUp = secrets.stepUp
        plan.stepUpToken = isStepUp ? input.presentedSession : nil
        return plan
    }

    /// Returns the problem of a callback's error.
    private func problem(of error: CallbackError, _ secrets: LoginSecrets) -> BrokerProblem {
        var problem = BrokerProblem(error, isSilent: secrets.demands.isSilent)
        if let stepUp = secrets.stepUp, error.code == "unmet_authentication_requirements" {
            problem.code = .stepUpFailed
            problem.shortfall = StepUpShortfall(required: stepUp.demand, got: nil)
        }
        return problem
    }

    /// Demands the living session that the login is to step up, while the code is still good; another one burns it.
    ///
    /// Of a session that belongs to a key, the login does too, and the proof has been shown.
    private func checkSession(
        _ session: Digest, _ row: LoginRow, _ secrets: LoginSecrets, _ input: ForwardCodeInput
    ) async throws(BrokerProblem) {
        guard let presented = input.presentedSession else { throw BrokerProblem(.sessionRequired) }
        guard context.vault.digest(presented) == session else {
            if row.status == .pending, await burn(row) {
                context.events.emit(.loginBurned(provider: secrets.provider, client: secrets.client))
            }
            throw BrokerProblem(.loginNotYours, privateDetail: "another session than the one that steps up")
        }
        let live = try await ResumeSession(context).resume(session)
        guard live.facts.thumbprint == secrets.thumbprint else {
            throw BrokerProblem(.loginNotYours, privateDetail: "the session belongs to another key")
        }
    }

    /// Only who started a login may finish it; anybody else burns it (SEC-05).
    private func checkStarter(
        _ row: LoginRow, _ secrets: LoginSecrets, key: Digest?, loginToken: Secret?
    ) async throws(BrokerProblem) {
        if let loginToken, context.vault.digest(loginToken) == row.loginTokenDigest { return }
        if row.status == .pending {
            if await burn(row) {
                context.events.emit(.loginBurned(provider: secrets.provider, client: secrets.client))
                throw BrokerProblem(.loginNotYours)
            }
        }
        // Used by its starter already: the code is gone, and this is somebody else.
        throw BrokerProblem(row.exchange != nil && row.exchange == key ? .codeAlreadyUsed : .loginNotYours)
    }

    /// Demands the key that the login is bound to; a good proof by another burns it.
    ///
    /// A login that is bound to none goes by its client's mode, as a session that begins now.
    func binding(
        _ row: LoginRow, _ secrets: LoginSecrets, _ client: ClientProfile, _ input: ForwardCodeInput
    ) async throws(BrokerProblem) -> SignInKey {
        let proof = SignInProof(context: context)
        guard let thumbprint = secrets.thumbprint else {
            // A key is never added to a session that lives.
            guard secrets.stepUp?.session == nil else { return .none }
            return try proof.look(input.evidence, of: client, at: secrets.provider)
        }
        let proved = try await proof.demand(
            input.evidence, of: client.name, at: secrets.provider, paidBy: row.state, input.charge)
        guard proved == thumbprint else {
            if row.status == .pending, await burn(row) {
                context.events.emit(.loginBurned(provider: secrets.provider, client: secrets.client))
            }
            throw BrokerProblem(.loginNotYours, privateDetail: "a proof by another key")
        }
        return .proved(thumbprint)
    }

    private func burn(_ row: LoginRow) async -> Bool {
        do { return try await context.store.burnLogin(state: row.state) } catch {
            context.events.emit(.storeFailed(operation: "burnLogin", detail: "\(error)"))
            return false
        }
    }

    /// Returns the verifier to redeem with: the broker's own, or the app's after the broker's own check (SEC-03).
    private func checkVerifier(
        _ secrets: LoginSecrets, _ client: ClientProfile, _ input: ForwardCodeInput
    ) throws(BrokerProblem) -> Secret? {
        guard let challenge = secrets.appChallenge else {
            // A client that starts its own logins was handed this one (flow D); its usual body has a verifier in it.
            let wasHanded = client.login == .app || (client.login == .both && secrets.providerStarted)
            guard input.codeVerifier == nil || wasHanded else {
                throw BrokerProblem(.invalidRequest, errors: [FieldFault("/code_verifier", .notAllowed)])
            }
            return secrets.verifier
        }
        guard let verifier = input.codeVerifier else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault("/code_verifier", .required)])
        }
        try PKCE.checkVerifier(verifier)
        guard context.vault.codeChallenge(of: verifier) == challenge else { throw BrokerProblem(.verifierMismatch) }
        return verifier
    }
}
