/// Takes what an app forwards after its sign-in and makes a session of it, once: the service's main use case.
package struct ForwardCode: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Decides which flow of DESIGN section 2 the input is, and runs its exchange.
    package func forward(_ input: ForwardCodeInput) async throws(BrokerProblem) -> SignInOutcome {
        let sources = [
            ("/callback_url", input.callbackURL != nil), ("/handoff", input.handoff != nil),
            ("/code", input.code != nil), ("/tokens", input.tokens != nil),
        ].filter(\.1)
        guard let first = sources.first else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault("/callback_url", .required)])
        }
        guard sources.count == 1 else {
            throw BrokerProblem(.invalidRequest, errors: sources.dropFirst().map { FieldFault($0.0, .conflict) })
        }
        let plan =
            switch first.0 {
            case "/callback_url": try await planCallback(input)
            case "/handoff": try await HandoffForward(context: context).plan(input)
            case "/code": try await AppLoginForward(context: context).plan(code: input)
            default: try ImportForward(context: context).plan(input)
            }
        return try await ExchangeRunner(context: context).run(plan)
    }

    private func planCallback(_ input: ForwardCodeInput) async throws(BrokerProblem) -> ExchangePlan {
        let callback = try Self.parse(input.callbackURL ?? "")
        if let state = callback.parameters["state"], !state.isEmpty {
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

    private static func parse(_ text: String) throws(BrokerProblem) -> CallbackURL {
        do throws(CallbackURL.Failure) {
            let callback = try CallbackURL(parsing: text)
            // A token in a callback is the implicit grant, which does not exist here (SEC-01).
            guard callback.parameters["access_token"] == nil else { throw .malformed }
            return callback
        } catch {
            throw BrokerProblem(
                .invalidCallback, errors: [FieldFault("/callback_url", error.fault)])
        }
    }
}

extension CallbackURL.Failure {
    fileprivate var fault: FieldFault.Code {
        switch self {
        case .tooLong: .tooLong
        case .duplicate: .duplicate
        case .malformed, .userInfo, .fragment: .malformed
        }
    }
}
