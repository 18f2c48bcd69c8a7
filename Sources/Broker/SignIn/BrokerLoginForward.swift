/// Plans the exchange of a login that the broker started (flow A).
///
/// The callback is checked against the pending login. The order of the checks reveals as little as possible to an attacker.
struct BrokerLoginForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange to run, or throws the fault of the callback and emits it as an event for operators.
    ///
    /// Planning calls no provider.
    func plan(
        target: String, parameters: FormPairs, login row: LoginRow, input: ForwardCodeInput
    ) async throws(BrokerProblem) -> ExchangePlan {
        let secrets = try LoginSecrets.open(row, context)
        do throws(BrokerProblem) {
            return try await plan(secrets, target: target, parameters: parameters, login: row, input: input)
        } catch {
            // If another party tries to finish a pending login, the login is burned, and `loginBurned` is emitted instead.
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
        let (provider, client) = try party(of: secrets, target: target, input)
        let code = parameters["code"].flatMap { $0.isEmpty ? nil : Secret($0) }
        let key = code.map { context.vault.index(.code, [secrets.provider.text, $0.reveal()]) }
        try await checkStarter(row, secrets, key: key, loginToken: input.loginToken)
        let binding = try await binding(row, secrets, client, input)
        if let session = secrets.stepUp?.session { try await checkSession(session, row, secrets, input) }
        if row.status != .pending {
            // The login is used up or burned. Only the exchange that used up the login may be repeated.
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
            throw BrokerProblem(.invalidCallback, privateDetail: "the callback has neither a code nor an error")
        }
        let verifier = try checkVerifier(secrets, client, input)
        if let state = input.state, context.vault.digest(state) != row.state {
            throw BrokerProblem(.stateMismatch)
        }
        var expected = secrets.demands
        // Leave the app's own demand out here. `ExchangeSettlement` checks it after the code's exchange, so that the answer
        // can name the missing part.
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
            // The session that is stepped up must be kept, so the exchange replaces no session.
            device: input.device, presentedSession: isStepUp ? nil : input.presentedSession,
            loginToken: input.loginToken, charge: input.charge, binding: binding)
        plan.stepUp = secrets.stepUp
        plan.stepUpToken = isStepUp ? input.presentedSession : nil
        return plan
    }

    /// Returns the login's provider and client.
    ///
    /// Throws if the request names another provider or client, or if the callback has another address than the login.
    private func party(
        of secrets: LoginSecrets, target: String, _ input: ForwardCodeInput
    ) throws(BrokerProblem) -> (any ProviderClient, ClientProfile) {
        guard let provider = context.providers[secrets.provider],
            let client = provider.profile.client(secrets.client)
        else {
            throw BrokerProblem(
                .clientNotAllowed, privateDetail: "the login's provider or client has left the configuration")
        }
        if input.provider.map({ $0 != secrets.provider }) ?? false {
            throw BrokerProblem(
                .stateMismatch, privateDetail: "the login belongs to another provider than the request names")
        }
        if input.client.map({ $0 != secrets.client }) ?? false {
            throw BrokerProblem(
                .stateMismatch, privateDetail: "the login belongs to another client than the request names")
        }
        guard RedirectURI.areSame(target, secrets.redirectURI) else {
            throw BrokerProblem(
                .invalidCallback, privateDetail: "the callback's address differs from the login's redirect URI")
        }
        return (provider, client)
    }

    /// Returns the problem for an error in a callback.
    private func problem(of error: CallbackError, _ secrets: LoginSecrets) -> BrokerProblem {
        var problem = BrokerProblem(error, isSilent: secrets.demands.isSilent)
        if let stepUp = secrets.stepUp, error.code == "unmet_authentication_requirements" {
            problem.code = .stepUpFailed
            problem.payload = .shortfall(StepUpShortfall(required: stepUp.demand, got: nil))
        }
        return problem
    }

    /// Requires the live session that the login steps up, before the code is used.
    ///
    /// If the request presents another session, the login is burned.
    ///
    /// If the session belongs to a key, the login belongs to the same key, and `binding` has already checked the proof.
    private func checkSession(
        _ session: Digest, _ row: LoginRow, _ secrets: LoginSecrets, _ input: ForwardCodeInput
    ) async throws(BrokerProblem) {
        guard let presented = input.presentedSession else { throw BrokerProblem(.sessionRequired) }
        guard context.vault.digest(presented) == session else {
            if row.status == .pending, await burn(row) {
                context.events.emit(.loginBurned(provider: secrets.provider, client: secrets.client))
            }
            throw BrokerProblem(
                .loginNotYours, privateDetail: "the login steps up another session than the request presents")
        }
        let live = try await ResumeSession(context: context).resume(session)
        guard live.facts.thumbprint == secrets.thumbprint else {
            throw BrokerProblem(.loginNotYours, privateDetail: "the session belongs to another key than the login")
        }
    }

    /// Requires the login token of the login's starter; a forward by another party burns the login (SEC-05).
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
        // This caller is not the login's starter. If the starter has already used the login with this same code, report that the
        // code is spent.
        throw BrokerProblem(row.exchange != nil && row.exchange == key ? .codeAlreadyUsed : .loginNotYours)
    }

    /// Requires the device key that the login is bound to; a valid proof by another key burns the login.
    ///
    /// For an unbound login, the client's present setting decides whether a proof is required, as for a new session.
    func binding(
        _ row: LoginRow, _ secrets: LoginSecrets, _ client: ClientProfile, _ input: ForwardCodeInput
    ) async throws(BrokerProblem) -> SignInKey {
        let proof = SignInProof(context: context)
        guard let thumbprint = secrets.thumbprint else {
            // A step-up never adds a key to its session.
            guard secrets.stepUp?.session == nil else { return .none }
            return try proof.look(input.evidence, of: client, at: secrets.provider)
        }
        let proved = try await proof.demand(
            input.evidence, of: client.name, at: secrets.provider, paidBy: row.state, input.charge)
        guard proved == thumbprint else {
            if row.status == .pending, await burn(row) {
                context.events.emit(.loginBurned(provider: secrets.provider, client: secrets.client))
            }
            throw BrokerProblem(.loginNotYours, privateDetail: "the proof is by another key than the login's")
        }
        return .proved(thumbprint)
    }

    private func burn(_ row: LoginRow) async -> Bool {
        do { return try await context.store.burnLogin(state: row.state) } catch {
            context.events.emit(.storeFailed(operation: "burnLogin", detail: "\(error)"))
            return false
        }
    }

    /// Returns the verifier to send to the provider: the broker's own, or the app's after a check (SEC-03).
    private func checkVerifier(
        _ secrets: LoginSecrets, _ client: ClientProfile, _ input: ForwardCodeInput
    ) throws(BrokerProblem) -> Secret? {
        guard let challenge = secrets.appChallenge else {
            // The broker also makes logins for apps that usually start their own, for example after a callback that the
            // provider started (flow D). Such an app may still send its verifier, which is ignored here.
            let wasHanded = client.login == .app || (client.login == .both && secrets.providerStarted)
            guard input.codeVerifier == nil || wasHanded else {
                throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/code_verifier", .notAllowed)]))
            }
            return secrets.verifier
        }
        guard let verifier = input.codeVerifier else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/code_verifier", .required)]))
        }
        try PKCE.checkVerifier(verifier)
        guard context.vault.codeChallenge(of: verifier) == challenge else { throw BrokerProblem(.verifierMismatch) }
        return verifier
    }
}
