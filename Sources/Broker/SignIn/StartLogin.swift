/// Starts a login (flow A): makes state, verifier and nonce, gets the URL from the provider, and stores the pending login.
package struct StartLogin: Sendable {
    private let context: BrokerContext

    /// The time limit for all provider calls together that start one login.
    ///
    /// Each call also has a time limit of its own.
    private static let callBudget = Duration.seconds(60)

    package init(_ context: BrokerContext) { self.context = context }

    /// Starts a login that an app requests.
    package func start(_ input: StartLoginInput) async throws(BrokerProblem) -> StartedLogin {
        if let session = input.steppingUp { return try await stepUp(session, input) }
        guard let name = input.provider else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/provider", .required)]))
        }
        guard let provider = context.providers[name] else { throw BrokerProblem(.providerNotFound) }
        let client = try Self.client(input.client, of: provider.profile)
        guard client.login != .app else { throw BrokerProblem(.clientNotAllowed) }
        var order = try LoginOrder(input, kind: provider.profile.kind, client: client)
        if let demand = input.demand {
            try Self.checkCanFulfil(demand, provider.profile)
            order = try order.demanding(try Self.joined(demand, client), for: nil)
        }
        let key = try SignInProof(context: context).look(input.evidence, of: client, at: provider.profile.name)
        return try await begin(
            order, at: provider, client: client, loginToken: input.loginToken, key: key, charge: input.charge)
    }

    /// Starts a login that steps a session up; the login belongs to the session and to the session's key.
    private func stepUp(_ session: LiveSession, _ input: StartLoginInput) async throws(BrokerProblem) -> StartedLogin {
        let facts = session.facts
        guard let provider = context.providers[facts.provider], let client = provider.profile.client(facts.client)
        else {
            throw .notConfigured
        }
        var faults: [FieldFault] = []
        if let name = input.provider, name != facts.provider { faults.append(FieldFault("/provider", .notAllowed)) }
        if let name = input.client, name != facts.client { faults.append(FieldFault("/client", .notAllowed)) }
        if input.scope != nil { faults.append(FieldFault("/scope", .notAllowed)) }
        guard faults.isEmpty, let demand = input.demand else {
            throw BrokerProblem(.invalidRequest, with: .fields(faults))
        }
        guard client.login != .app else { throw BrokerProblem(.clientNotAllowed) }
        try Self.checkCanFulfil(demand, provider.profile)
        let order = try LoginOrder(input, kind: provider.profile.kind, client: client).demanding(demand, for: session)
        return try await begin(
            order, at: provider, client: client, loginToken: input.loginToken,
            key: facts.thumbprint.map { .proved($0) } ?? .none, charge: input.charge)
    }

    /// Returns an app's demand on a first sign-in, combined with the configured demand; for each part, the stricter value
    /// counts.
    private static func joined(
        _ demand: StepUpDemand, _ client: ClientProfile
    ) throws(BrokerProblem) -> StepUpDemand {
        let joined = demand.joined(with: client.configuredSignIn)
        guard joined.isPossible else {
            throw BrokerProblem(
                .stepUpFailed, detail: "No sign-in can meet both this demand and the configured one.",
                privateDetail:
                    "the login's `acr_values` and those in `authorization_parameters` have no value in common",
                with: .shortfall(StepUpShortfall(required: demand, got: nil)))
        }
        return joined
    }

    /// Throws if the provider cannot fulfil a demand.
    ///
    /// Otherwise, the app would open a browser in vain.
    private static func checkCanFulfil(_ demand: StepUpDemand, _ profile: ProviderProfile) throws(BrokerProblem) {
        guard profile.stepUp.canFulfil(demand) else {
            throw BrokerProblem(
                .clientNotAllowed, detail: "The provider cannot fulfil the demanded step-up.",
                privateDetail: "the provider's `step_up` does not include the demand")
        }
    }

    /// Starts a new login to replace a callback that cannot make a session (flow D, or an exchange with an unknown outcome).
    ///
    /// The login is bound to the device key that came with the callback.
    func restart(
        at provider: any ProviderClient, client: ClientProfile, parameters: [(name: String, value: String)] = [],
        demand: StepUpDemand? = nil, loginToken: Secret?, providerStarted: Bool, key: SignInKey, charge: Charge
    ) async throws(BrokerProblem) -> StartedLogin {
        var order = LoginOrder(standardFor: client, parameters: parameters, providerStarted: providerStarted)
        if let demand { order = try order.demanding(demand, for: nil) }
        return try await begin(order, at: provider, client: client, loginToken: loginToken, key: key, charge: charge)
    }

    /// Returns the named client, or else the provider's only client.
    static func client(_ name: ClientName?, of profile: ProviderProfile) throws(BrokerProblem) -> ClientProfile {
        if let name {
            guard let client = profile.client(name) else {
                throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/client", .notAllowed)]))
            }
            return client
        }
        guard let only = profile.clients.first, profile.clients.count == 1 else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/client", .required)]))
        }
        return only
    }

    /// Charges a login, verifies its proof, and makes the login; the charge comes before all expensive work.
    ///
    /// Every start of a login calls this method.
    private func begin(
        _ order: LoginOrder, at provider: any ProviderClient, client: ClientProfile, loginToken presented: Secret?,
        key signInKey: SignInKey, charge: Charge
    ) async throws(BrokerProblem) -> StartedLogin {
        try context.requireRing()
        let state: Secret
        do throws(VaultFailure) { state = try context.vault.randomToken() } catch { throw BrokerProblem(error) }
        let key = context.vault.digest(state)
        try charge.take(.login, for: key, lasting: context.settings.loginLifetime)
        do throws(BrokerProblem) {
            let thumbprint = try await SignInProof(context: context).prove(
                signInKey, of: client.name, at: provider.profile.name, paidBy: nil, charge)
            return try await make(
                order, at: provider, client: client, loginToken: presented, state: state, thumbprint: thumbprint)
        } catch {
            charge.drop(.login, for: key)
            throw error
        }
    }

    private func make(
        _ order: LoginOrder, at provider: any ProviderClient, client: ClientProfile, loginToken presented: Secret?,
        state: Secret, thumbprint: Digest?
    ) async throws(BrokerProblem) -> StartedLogin {
        let now = context.clock.now()
        let verifier: Secret?
        let nonce: Secret?
        let fresh: Secret
        let loginID: String
        let key: ProofKeyPair?
        do {
            verifier = client.pkce == .unsupported || order.appChallenge != nil ? nil : try context.vault.randomToken()
            nonce = client.nonce ? try context.vault.randomToken() : nil
            fresh = try context.vault.randomToken()
            loginID = "lgn_" + Base64URL.encode(try context.vault.random(16))
            // Each sign-in has its own key, so a stolen key reveals nothing about other sign-ins.
            key =
                client.senderConstraint == .dpop
                ? try context.vault.proofKeyPair(seed: try context.vault.random(32)) : nil
        } catch { throw BrokerProblem(error) }
        let loginToken = try await joinedToken(presented, now: now) ?? fresh

        let start: AuthorizationStart
        do throws(ProviderFailure) {
            start = try await provider.startAuthorization(
                AuthorizationRequest(
                    client: client.name, redirectURI: order.redirectURI, state: state, nonce: nonce,
                    codeChallenge: order.appChallenge ?? verifier.map(context.vault.codeChallenge(of:)),
                    scope: order.scope, parameters: order.parameters,
                    demanded: order.stepUp?.demand.parameters ?? [],
                    socialProvider: order.socialProvider,
                    proof: key.map { ProofMaker($0, context.vault, context.clock) }),
                by: context.clock.monotonic() + Self.callBudget)
        } catch { throw BrokerProblem(starting: error) }

        let secrets = LoginSecrets(
            provider: provider.profile.name, client: client.name, redirectURI: order.redirectURI.text,
            verifier: verifier, appChallenge: order.appChallenge, nonce: nonce, scope: order.scope,
            issuer: start.issuer, socialProvider: order.socialProvider, demands: start.demands,
            providerStarted: order.providerStarted, thumbprint: thumbprint, key: key,
            stepUp: order.stepUp?.joining(start.demands))
        let expiresAt = now.advanced(by: context.settings.loginLifetime)
        // A pushed request may be valid for only a minute (RFC 9126 section 2.2). The user has to open the URL within this
        // time, but the sign-in itself may take longer.
        let openBy = start.lifetime.map { now.advanced(by: $0) }.flatMap { $0 < expiresAt ? $0 : nil }
        let stateDigest = context.vault.digest(state)
        let row: LoginRow
        do throws(VaultFailure) {
            row = LoginRow(
                state: stateDigest, loginTokenDigest: context.vault.digest(loginToken), loginID: loginID,
                createdAt: now, expiresAt: expiresAt,
                sealed: try context.vault.seal(secrets.record, as: .login, row: stateDigest))
        } catch { throw BrokerProblem(error) }
        try await insert(row)
        context.events.emit(.loginStarted(provider: provider.profile.name, client: client.name))
        return StartedLogin(
            loginID: loginID, authorizationURL: start.url, appURL: start.appURL, state: state, expiresAt: expiresAt,
            openBy: openBy, loginToken: loginToken, transport: client.transport)
    }

    private func insert(_ row: LoginRow) async throws(BrokerProblem) {
        let insertion: LoginInsertion
        do throws(StoreFailure) {
            insertion = try await context.store.insertLogin(row, limits: context.settings.loginLimits)
        } catch { throw BrokerProblem(error) }
        switch insertion {
        case .inserted: break
        case .tooManyForToken, .tooManyPending:
            throw BrokerProblem(
                .rateLimited, detail: "Too many sign-ins are pending.", privateDetail: "\(insertion)",
                retryAfter: .seconds(60))
        }
    }

    /// Returns the presented login token if it belongs to a pending login, so that several logins of one device share a
    /// starter.
    ///
    /// If the presented token is unknown, the caller makes a fresh token instead.
    private func joinedToken(_ presented: Secret?, now: WallTime) async throws(BrokerProblem) -> Secret? {
        guard let presented else { return nil }
        do throws(StoreFailure) {
            let pending = try await context.store.pendingLogins(
                loginTokenDigest: context.vault.digest(presented), now: now)
            return pending.isEmpty ? nil : presented
        } catch { throw BrokerProblem(error) }
    }
}
