/// Plans the exchange for a login that the app started itself (flow B), or for a code of a native SDK.
///
/// The provider compares the verifier with the challenge, because the broker never saw the challenge. This type checks the
/// other values of the forward.
struct AppLoginForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange for a code that came without its callback URL.
    func plan(_ code: Secret, _ input: ForwardCodeInput) async throws(BrokerProblem) -> ExchangePlan {
        let (provider, client) = try who(input)
        guard !code.isEmpty else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/code", .required)]))
        }
        if client.nativeCode, input.codeVerifier == nil, input.redirectURI == nil {
            return try native(code, provider, client, input)
        }
        guard client.login != .broker else { throw BrokerProblem(.clientNotAllowed) }
        let binding = try binding(client, provider, input)
        guard client.pkce == .required else {
            // Without PKCE, only the whole callback URL and the app's state show that the app started this login.
            throw BrokerProblem(
                .invalidRequest,
                with: .fields(
                    [FieldFault("/callback_url", .required), FieldFault("/state", .required)].filter {
                        $0.pointer != "/state" || input.state == nil
                    }))
        }
        let verifier = try verifier(of: client, input)
        try Self.checkScope(input.scope, client)
        let redirect = try redirect(input.redirectURI, client)
        return try plan(code, provider, client, redirect: redirect, verifier: verifier, callback: [], input, binding)
    }

    /// Returns the exchange for a whole callback URL.
    func plan(_ callback: CallbackURL, _ input: ForwardCodeInput) async throws(BrokerProblem) -> ExchangePlan {
        let (provider, client) = try who(input)
        guard client.login != .broker else {
            // A callback without a state is an arrival that the provider started (flow D). A state here is forged, because
            // the broker made no login with this state, and this client's apps start no logins.
            guard callback.parameters["state"] == nil else { throw BrokerProblem(.stateMismatch) }
            throw try await ProviderStarted(context: context).loginRequired(callback, input)
        }
        let binding = try binding(client, provider, input)
        let redirect = try redirect(callback.target, client)
        if let named = input.redirectURI, !RedirectURI.areSame(named, redirect) {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/redirect_uri", .conflict)]))
        }
        let verifier = try verifier(of: client, input)
        try Self.checkScope(input.scope, client)
        // If the app was killed during the sign-in, it has lost its stored state. So a missing or wrong state leads to a fresh
        // login instead of an error.
        let states = (callback.parameters["state"], input.state)
        switch states {
        case (nil, nil) where client.pkce == .required: break
        case (let sent?, let kept?) where context.vault.digest(Secret(sent)) == context.vault.digest(kept): break
        default: throw try await ProviderStarted(context: context).loginRequired(callback, input)
        }
        guard let exchanging = provider as? any CodeExchanging else { throw BrokerProblem(.clientNotAllowed) }
        let code = callback.parameters["code"].flatMap { $0.isEmpty ? nil : Secret($0) }
        if let code {
            // Finding the expected issuer may need a call to the provider, so the exchange is charged first.
            try await ExchangeCharge(context: context).take(key(of: code, provider), .none, input.charge)
        }
        let issuer: IssuerExpectation
        do throws(ProviderFailure) { issuer = try await exchanging.issuerExpectation() } catch {
            throw BrokerProblem(starting: error)
        }
        let error = CallbackError(callback.parameters)
        try CallbackIssuer(context: context).check(
            callback.parameters, issuer, provider: provider.profile.name, client: client.name,
            succeeded: code != nil && error == nil)
        if let error { throw context.refusal(error, provider: provider.profile.name, client: client.name) }
        guard let code else { throw try await ProviderStarted(context: context).loginRequired(callback, input) }
        return try plan(
            code, provider, client, redirect: redirect, verifier: verifier,
            callback: callback.parameters.providersOwn, input, binding)
    }

    private func plan(
        _ code: Secret, _ provider: any ProviderClient, _ client: ClientProfile, redirect: String, verifier: Secret?,
        callback: [(name: String, value: String)], _ input: ForwardCodeInput, _ binding: SignInKey
    ) throws(BrokerProblem) -> ExchangePlan {
        let key = key(of: code, provider)
        let requestedScope = client.assumesScope ? input.scope ?? [] : []
        return ExchangePlan(
            key: key, proof: try LoginToken.checked(input.loginToken) ?? verifier, gate: .none, provider: provider,
            client: client,
            call: .code(
                CodeGrant(
                    client: client.name, code: code, redirect: .uri(redirect), verifier: verifier,
                    idempotencyKey: Base64URL.encode(key.bytes)),
                // If the app omits the nonce, an id_token with a nonce is refused, because that nonce is unverifiable.
                IdentityContext(
                    client: client.name, nonce: input.nonce.map { .exactly($0) } ?? .absent, callback: callback,
                    requestedScope: requestedScope, demands: SignInDemands())),
            device: input.device, presentedSession: input.presentedSession, loginToken: input.loginToken,
            charge: input.charge, binding: binding)
    }

    /// Plans the exchange of a code from a provider's own SDK (Google's serverAuthCode, Apple's authorizationCode).
    ///
    /// The app forwards such a code without a verifier and a redirect URI. The login token ties the code to the app, and so
    /// does the nonce if the client uses nonces.
    private func native(
        _ code: Secret, _ provider: any ProviderClient, _ client: ClientProfile, _ input: ForwardCodeInput
    ) throws(BrokerProblem) -> ExchangePlan {
        var faults: [FieldFault] = []
        if input.loginToken == nil { faults.append(FieldFault("/login_token", .required)) }
        if client.nonce, input.nonce == nil { faults.append(FieldFault("/nonce", .required)) }
        if input.scope != nil { faults.append(FieldFault("/scope", .notAllowed)) }
        guard faults.isEmpty else { throw BrokerProblem(.invalidRequest, with: .fields(faults)) }
        let key = key(of: code, provider)
        return ExchangePlan(
            key: key, proof: try LoginToken.checked(input.loginToken), gate: .none, provider: provider, client: client,
            call: .code(
                CodeGrant(
                    client: client.name, code: code, redirect: client.nativeRedirect, verifier: nil,
                    idempotencyKey: Base64URL.encode(key.bytes)),
                IdentityContext(
                    client: client.name, nonce: input.nonce.map { .rawOrSHA256($0) } ?? .none, callback: [],
                    requestedScope: [])),
            device: input.device, presentedSession: input.presentedSession, loginToken: input.loginToken,
            charge: input.charge, binding: try binding(client, provider, input))
    }

    /// Checks all parts of the device key's proof except its signature, and returns the key that the session will belong to.
    private func binding(
        _ client: ClientProfile, _ provider: any ProviderClient, _ input: ForwardCodeInput
    ) throws(BrokerProblem) -> SignInKey {
        try SignInProof(context: context).look(input.evidence, of: client, at: provider.profile.name)
    }

    private func key(of code: Secret, _ provider: any ProviderClient) -> Digest {
        context.vault.index(.code, [provider.profile.name.text, code.reveal()])
    }

    private func who(_ input: ForwardCodeInput) throws(BrokerProblem) -> (any ProviderClient, ClientProfile) {
        guard let name = input.provider else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/provider", .required)]))
        }
        guard let provider = context.providers[name] else { throw BrokerProblem(.providerNotFound) }
        guard provider is any CodeExchanging else { throw BrokerProblem(.clientNotAllowed) }
        return (provider, try StartLogin.client(input.client, of: provider.profile))
    }

    private func verifier(of client: ClientProfile, _ input: ForwardCodeInput) throws(BrokerProblem) -> Secret? {
        switch (client.pkce, input.codeVerifier) {
        case (.required, let verifier?):
            try PKCE.checkVerifier(verifier)
            return verifier
        case (.required, nil):
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/code_verifier", .required)]))
        case (.unsupported, nil): return nil
        case (.unsupported, _?):
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/code_verifier", .notAllowed)]))
        }
    }

    /// Checks the scopes that the app reports from its own request.
    ///
    /// Each scope must be in the client's configured scope. If the provider's answer omits the scope, the reported scopes
    /// count as granted.
    private static func checkScope(_ scope: [String]?, _ client: ClientProfile) throws(BrokerProblem) {
        guard scope?.allSatisfy(client.scope.contains) ?? true else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/scope", .notAllowed)]))
        }
    }

    private func redirect(_ wanted: String?, _ client: ClientProfile) throws(BrokerProblem) -> String {
        guard let wanted else { return client.redirectURIs.first?.text ?? "" }
        // The operating system may change the spelling of the callback's address. The provider knows only the registered
        // spelling, so send that.
        guard let registered = client.redirectURI(wanted) else {
            throw BrokerProblem(.invalidCallback, privateDetail: "the address is not in the client's `redirect_uris`")
        }
        return registered.text
    }
}
