/// Makes one session from the values that an app forwards after its sign-in; the service's main use case.
package struct ForwardCode: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Finds out which flow the input belongs to (started by the broker, the app or the provider, or Zephr's), and runs its
    /// exchange.
    package func forward(_ input: ForwardCodeInput) async throws(BrokerProblem) -> SignInOutcome {
        let forwarded = try input.forwarded()
        let plan =
            switch forwarded {
            case .callback(let url): try await plan(callback: url, input)
            case .handoff(let handoff): try await HandoffForward(context: context).plan(handoff, input)
            case .code(let code): try await AppLoginForward(context: context).plan(code, input)
            case .idToken(let token): try await IDTokenForward(context: context).plan(token, input)
            case .tokens(let tokens):
                try await counting(.tokens, input) { () async throws(BrokerProblem) in
                    try await ImportForward(context: context).plan(tokens, input)
                }
            case .legacy(let legacy):
                try await counting(legacy.way, input) { () async throws(BrokerProblem) in
                    try await LegacyForward(context: context).plan(legacy, input)
                }
            }
        try Self.checkBeforeSpending(plan, forwarded)
        guard let way = plan.way else { return try await run(plan) }
        let outcome: SignInOutcome
        do throws(BrokerProblem) { outcome = try await run(plan) } catch {
            if let result = ImportResult(error) { count(way, result, plan.provider.profile.name, plan.client.name) }
            throw error
        }
        count(way, outcome.isRepeat ? .repeated : .moved, plan.provider.profile.name, plan.client.name)
        return outcome
    }

    /// Plans an import, and counts the post if the time for imports is over.
    private func counting(
        _ way: ImportWay, _ input: ForwardCodeInput, _ plan: () async throws(BrokerProblem) -> ExchangePlan
    ) async throws(BrokerProblem) -> ExchangePlan {
        do throws(BrokerProblem) { return try await plan() } catch {
            if let name = input.provider, let profile = context.providers[name]?.profile,
                let client = try? StartLogin.client(input.client, of: profile), ImportResult(error) == .closed
            {
                count(way, .closed, name, client.name)
            }
            throw error
        }
    }

    private func count(
        _ way: ImportWay, _ result: ImportResult, _ provider: ProviderName, _ client: ClientName
    ) {
        context.events.emit(.imported(provider: provider, client: client, way: way, result: result))
    }

    private func run(_ plan: ExchangePlan) async throws(BrokerProblem) -> SignInOutcome {
        try context.requireRing()
        return try await ExchangeRunner(context: context).run(plan)
    }

    private func plan(
        callback url: String, _ input: ForwardCodeInput
    ) async throws(BrokerProblem) -> ExchangePlan {
        let callback = try parse(url, input)
        let state = callback.parameters["state"] ?? ""
        if !isZephr(callback, input) {
            let hasCode = !(callback.parameters["code"] ?? "").isEmpty
            let hasError = CallbackError(callback.parameters) != nil
            // A callback with neither code nor error finishes no login. A callback without a state belongs to no login (flow
            // D).
            let isArrival = hasError ? state.isEmpty : !hasCode || (state.isEmpty && !isWholeForward(input))
            if isArrival { throw try await ProviderStarted(context: context).loginRequired(callback, input) }
        }
        if !state.isEmpty {
            let digest = context.vault.digest(Secret(state))
            let row: LoginRow?
            do throws(StoreFailure) { row = try await context.store.login(state: digest) } catch {
                throw BrokerProblem(error)
            }
            if let row {
                return try await BrokerLoginForward(context: context).plan(
                    target: callback.target, parameters: callback.parameters, login: row, input: input)
            }
            guard input.provider != nil else { throw BrokerProblem(.stateMismatch) }
            return try await AppLoginForward(context: context).plan(callback, input)
        }
        if let plan = try await ZephrForward(context: context).plan(callback, input) { return plan }
        if input.provider != nil {
            return try await AppLoginForward(context: context).plan(callback, input)
        }
        throw try await ProviderStarted(context: context).loginRequired(callback, input)
    }

    private func isZephr(_ callback: CallbackURL, _ input: ForwardCodeInput) -> Bool {
        provider(of: callback.target, input).flatMap { context.providers[$0] }?.profile.kind == .zephr
    }

    /// Returns the provider that owns the callback's address, or else the provider that the request names.
    private func provider(of target: String, _ input: ForwardCodeInput) -> ProviderName? {
        context.providers.owner(ofRedirect: target)?.provider ?? input.provider
    }

    /// Returns whether the body has every member of flow B for an app that omits the state in its authorize request.
    ///
    /// Without a state, PKCE ties the code to the app.
    private func isWholeForward(_ input: ForwardCodeInput) -> Bool {
        guard input.codeVerifier != nil, input.state == nil, let name = input.provider,
            let profile = context.providers[name]?.profile,
            let client = input.client.map({ profile.client($0) }) ?? profile.clients.first,
            input.client != nil || profile.clients.count == 1
        else { return false }
        return client.login != .broker && client.pkce == .required
    }

    /// Rejects a forward that the provider would certainly reject, before its code is spent.
    static func checkBeforeSpending(
        _ plan: ExchangePlan, _ forwarded: ForwardCodeInput.Forwarded
    ) throws(BrokerProblem) {
        guard let provider = plan.provider as? any CodeExchanging else { return }
        let parameters: [(name: String, value: String)]
        switch plan.call {
        case .code(let grant, let identity):
            guard case .uri = grant.redirect else { return }
            parameters = identity.callback
        case .importTokens(let tokens): parameters = tokens.callback
        case .zephrSession, .zephrPartial, .register, .idToken, .legacy: return
        }
        guard let fault = provider.callbackFault(parameters, client: plan.client.name) else { return }
        switch forwarded {
        case .code:
            throw BrokerProblem(
                .invalidRequest, privateDetail: fault, with: .fields([FieldFault("/callback_url", .required)]))
        case .tokens:
            throw BrokerProblem(
                .invalidRequest, privateDetail: fault, with: .fields([FieldFault("/tokens/merchant_id", .required)]))
        case .callback, .handoff, .idToken, .legacy: throw BrokerProblem(.invalidCallback, privateDetail: fault)
        }
    }

    private func parse(_ text: String, _ input: ForwardCodeInput) throws(BrokerProblem) -> CallbackURL {
        do throws(CallbackURL.Failure) {
            let callback = try CallbackURL(
                parsing: text, queries: context.providers.redirectsWithQuery,
                names: { context.providers.callbackNames(of: provider(of: $0, input)) })
            // A token in a callback means the implicit grant, which the broker refuses (SEC-01).
            guard callback.parameters["access_token"] == nil else { throw .malformed }
            return callback
        } catch {
            throw BrokerProblem(
                .invalidCallback, detail: error.words.map { "The callback URL is malformed: \($0)." },
                privateDetail: error.words, with: .fields([FieldFault("/callback_url", error.fault)]))
        }
    }
}

extension CallbackURL.Failure {
    fileprivate var fault: FieldFault.Code {
        switch self {
        case .tooLong: .tooLong
        case .parameters(.duplicate, _): .duplicate
        case .malformed, .userInfo, .fragment, .parameters: .malformed
        }
    }

    /// The fault in words; nil if the text is not a callback URL at all.
    fileprivate var words: String? {
        switch self {
        case .tooLong: "it is longer than \(CallbackURL.maximumBytes) bytes"
        case .userInfo: "it has user information before its host"
        case .fragment: "it has a fragment other than `_=_`"
        case .parameters(_, let words): words
        case .malformed: nil
        }
    }
}

/// Checks login tokens that an app chose itself (flow B): 43–128 base64url characters.
enum LoginToken {
    /// Returns the token, or throws if it is malformed.
    static func checked(_ token: Secret?) throws(BrokerProblem) -> Secret? {
        guard let token else { return nil }
        guard Base64URL.isToken(token.reveal(), length: 43...128) else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/login_token", .malformed)]))
        }
        return token
    }
}
