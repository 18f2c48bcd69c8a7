/// Receives a provider's callback at the broker's own https address (flow C).
///
/// The callback is stored, and the browser is sent to the app with a one-time handoff. The provider's code never reaches the
/// device.
package struct HostedCallback: Sendable {
    private let context: BrokerContext
    private let publicURL: String

    /// Creates the use case; `publicURL` has no trailing slash.
    package init(_ context: BrokerContext, publicURL: String) {
        self.context = context
        self.publicURL = publicURL
    }

    /// Returns the names of the parameters that are read from a provider's callbacks.
    package func names(of provider: ProviderName) -> FormNames { context.providers.callbackNames(of: provider) }

    /// Returns the URL for the browser's redirect (303).
    ///
    /// Throws `provider_not_found` if no client of the provider has this hosted callback. Throws other problems if the login
    /// cannot be read.
    ///
    /// An unknown state is charged as a wrong token. A handoff is charged before its row is made.
    package func receive(
        provider name: ProviderName, parameters: FormPairs, charge: Charge = .nobody
    ) async throws(BrokerProblem) -> Secret {
        let target = "\(publicURL)/callback/\(name.text)"
        guard let provider = context.providers[name], let owner = context.providers.owner(ofRedirect: target),
            owner.provider == name, let fallback = provider.profile.client(owner.client),
            let fallbackTo = fallback.hostedCallbackTo
        else { throw BrokerProblem(.providerNotFound) }
        guard let state = parameters["state"], !state.isEmpty else {
            // If the client demands an issuer in every answer, ignore an error without a state. Its issuer is unchecked, so
            // the error may be forged.
            if let error = CallbackError(parameters), !fallback.demandsIssuer {
                let problem = context.refusal(error, provider: name, client: fallback.name)
                return Self.link(fallbackTo, [("error", problem.code.rawValue)])
            }
            return Self.loginRequired(fallbackTo, name, fallback)
        }
        let login: LoginRow?
        do throws(StoreFailure) {
            login = try await context.store.login(state: context.vault.digest(Secret(state)))
        } catch { throw BrokerProblem(error) }
        guard let login else { return Self.link(fallbackTo, [("error", Self.mismatch(charge).rawValue)]) }
        let secrets = try LoginSecrets.open(login, context)
        guard secrets.provider == name, RedirectURI.areSame(secrets.redirectURI, target),
            let client = provider.profile.client(secrets.client), let to = client.hostedCallbackTo
        else { return Self.link(fallbackTo, [("error", Self.mismatch(charge).rawValue)]) }
        // A callback with neither a code nor an error leaves the login as it is.
        if (parameters["code"] ?? "").isEmpty, CallbackError(parameters) == nil {
            return Self.loginRequired(to, name, client)
        }
        do throws(BrokerProblem) {
            let kept = Self.kept(parameters, client, provider)
            let handoff = try await charge.forWrongTokens { () async throws(BrokerProblem) in
                try await keep(
                    HandoffSecrets(login: login.state, target: target, parameters: kept), of: login, secrets,
                    parameters, charge)
            }
            return Self.link(to, [("handoff", handoff.reveal()), ("login_id", login.loginID)])
        } catch {
            return Self.link(to, [("error", error.code.rawValue), ("login_id", login.loginID)])
        }
    }

    /// Charges a wrong token for an unknown state, and returns the problem code of its answer.
    private static func mismatch(_ charge: Charge) -> ProblemCode {
        do throws(BrokerProblem) { try charge.takeWrongToken() } catch { return error.code }
        return .stateMismatch
    }

    /// The longest code in bytes that is kept; flow B has the same limit.
    private static let maximumCode = 4096
    /// The longest value of another parameter in bytes.
    ///
    /// A longer value is dropped.
    private static let maximumValue = 2048

    /// Returns the parameters of the callback that the exchange reads.
    private static func kept(
        _ parameters: FormPairs, _ client: ClientProfile, _ provider: any ProviderClient
    ) -> [(name: String, value: String)] {
        let names = Set(["code", "iss"] + provider.callbackHints + client.callbackParameters)
        return parameters.pairs.filter { pair in
            names.contains(pair.name) && pair.value.utf8.count <= (pair.name == "code" ? maximumCode : maximumValue)
        }
    }

    /// Stores the callback's values and returns their handoff.
    ///
    /// A repeated callback gets the same handoff. While that handoff lives, another callback of the login is refused.
    private func keep(
        _ secrets: HandoffSecrets, of login: LoginRow, _ own: LoginSecrets, _ parameters: FormPairs, _ charge: Charge
    ) async throws(BrokerProblem) -> Secret {
        let now = context.clock.now()
        guard login.status == .pending else { throw BrokerProblem(.stateMismatch) }
        guard now < login.expiresAt else { throw BrokerProblem(.loginExpired) }
        let code = parameters["code"] ?? ""
        let error = CallbackError(parameters)
        try CallbackIssuer(context: context).check(
            parameters, own.issuer, provider: own.provider, client: own.client,
            succeeded: !code.isEmpty && error == nil)
        do {
            if let error {
                _ = try await context.store.burnLogin(state: login.state)
                throw context.refusal(
                    error, isSilent: own.demands.isSilent, provider: own.provider, client: own.client)
            }
            guard !code.isEmpty, code.utf8.count <= Self.maximumCode, parameters["access_token"] == nil else {
                throw BrokerProblem(.invalidCallback)
            }
            let handoff = derived(secrets)
            let key = context.vault.index(.handoff, [handoff.reveal()])
            if let standing = try await context.store.handoff(login: login.state), now < standing.expiresAt {
                guard standing.key == key else { throw BrokerProblem(.stateMismatch) }
                return handoff
            }
            let expiresAt = now.advanced(by: context.settings.handoffLifetime)
            let row = HandoffRow(
                login: login.state, key: key, createdAt: now, expiresAt: expiresAt,
                keptUntil: expiresAt.advanced(by: context.settings.handoffSlack),
                sealed: try context.vault.seal(secrets.record, as: .outcome, row: key))
            try charge.take(
                .handoff, for: login.state, lasting: context.settings.handoffLifetime + context.settings.handoffSlack)
            guard try await context.store.keepHandoff(row) else { throw BrokerProblem(.stateMismatch) }
            return handoff
        } catch { throw BrokerProblem(storing: error) }
    }

    /// Derives the handoff from a callback, so that only a caller with the same callback gets the same handoff.
    private func derived(_ secrets: HandoffSecrets) -> Secret {
        let parts =
            [Base64URL.encode(secrets.login.bytes), secrets.target]
            + secrets.parameters.sorted { $0.name < $1.name }.flatMap { [$0.name, $0.value] }
        return Secret(Base64URL.encode(context.vault.index(.handoffToken, parts).bytes))
    }

    private static func loginRequired(_ base: String, _ provider: ProviderName, _ client: ClientProfile) -> Secret {
        link(base, [("error", "login_required"), ("provider", provider.text), ("client", client.name.text)])
    }

    private static func link(_ base: String, _ pairs: [(name: String, value: String)]) -> Secret {
        Secret(base + (base.contains("?") ? "&" : "?") + FormPairs.encode(pairs))
    }
}
