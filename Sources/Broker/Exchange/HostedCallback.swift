/// Receives a provider's return at the broker's own https callback (flow C): keeps the code and sends the browser to
/// the app with a one-time handoff.
///
/// The provider's code never reaches the device.
package struct HostedCallback: Sendable {
    private let context: BrokerContext
    private let publicURL: String

    /// Creates the use case; `publicURL` has no trailing slash.
    package init(_ context: BrokerContext, publicURL: String) {
        self.context = context
        self.publicURL = publicURL
    }

    /// Returns the URL to send the browser to (303); throws only when there is no app to send it to.
    package func receive(provider name: ProviderName, parameters: FormPairs) async throws(BrokerProblem) -> Secret {
        let target = "\(publicURL)/callback/\(name.text)"
        guard let provider = context.providers[name], let owner = context.providers.owner(ofRedirect: target),
            owner.provider == name, let fallback = provider.profile.client(owner.client),
            let fallbackTo = fallback.hostedCallbackTo
        else { throw BrokerProblem(.providerNotFound) }
        guard let state = parameters["state"], !state.isEmpty else {
            if let error = parameters["error"] {
                return Self.link(fallbackTo, [("error", BrokerProblem(callbackError: error).code.rawValue)])
            }
            return Self.link(
                fallbackTo,
                [("error", "login_required"), ("provider", name.text), ("client", fallback.name.text)])
        }
        let login: LoginRow?
        do throws(StoreFailure) {
            login = try await context.store.login(state: context.vault.digest(Secret(state)))
        } catch { throw BrokerProblem(error) }
        guard let login else { return Self.link(fallbackTo, [("error", "state_mismatch")]) }
        let secrets = try BrokerLoginForward(context: context).open(login)
        guard secrets.provider == name, secrets.redirectURI == target,
            let to = provider.profile.client(secrets.client)?.hostedCallbackTo
        else { return Self.link(fallbackTo, [("error", "state_mismatch")]) }
        do throws(BrokerProblem) {
            return Self.link(
                to, [("handoff", try await keep(login, target, parameters).reveal()), ("login_id", login.loginID)])
        } catch {
            return Self.link(to, [("error", error.code.rawValue), ("login_id", login.loginID)])
        }
    }

    private func keep(_ login: LoginRow, _ target: String, _ parameters: FormPairs) async throws(BrokerProblem)
        -> Secret
    {
        let now = context.clock.now()
        guard login.status == .pending else { throw BrokerProblem(.stateMismatch) }
        guard now < login.expiresAt else { throw BrokerProblem(.loginExpired) }
        let secrets = try BrokerLoginForward(context: context).open(login)
        let code = parameters["code"] ?? ""
        try BrokerLoginForward.checkIssuer(
            parameters, secrets.issuer, succeeded: !code.isEmpty && parameters["error"] == nil)
        do {
            if let error = parameters["error"] {
                _ = try await context.store.burnLogin(state: login.state)
                throw BrokerProblem(callbackError: error)
            }
            guard !code.isEmpty, parameters["access_token"] == nil else { throw BrokerProblem(.invalidCallback) }
            let handoff = try context.vault.randomToken()
            let key = context.vault.index(.handoff, [handoff.reveal()])
            let kept = HandoffSecrets(login: login.state, target: target, parameters: parameters.pairs)
            try await context.store.insertRegistration(
                RegistrationRow(
                    key: key, loginToken: login.loginToken, createdAt: now,
                    expiresAt: now.advanced(by: context.settings.handoffLifetime),
                    sealed: try context.vault.seal(kept.record, as: .outcome, row: key)))
            return handoff
        } catch { throw BrokerProblem(storing: error) }
    }

    private static func link(_ base: String, _ pairs: [(name: String, value: String)]) -> Secret {
        Secret(base + (base.contains("?") ? "&" : "?") + FormPairs.encode(pairs))
    }
}
