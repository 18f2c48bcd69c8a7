import Broker
import BrokerWire
import HTTPTypes

extension BrokerAPI {
    /// `POST /v1/logins`: starts a login (flow A).
    @Sendable func startLogin(_ call: Call) async throws(BrokerProblem) -> Answer {
        var input = try startLoginInput(call)
        // The stronger sign-in stays in the session after a pass has ended, so a step-up requires a proof.
        if input.demand != nil, try credentials(call).token() != nil {
            input.steppingUp = try await credentials(call).open(demanding: .proof, admitting: .exceptChildren).session
        } else if input.provider == nil {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/provider", .required)]))
        }
        let login = try await useCases.startLogin.start(input)
        let cookie =
            login.transport == .cookie
            ? [cookies.login(login.loginToken, lifetime: login.expiresAt.since(clock.now()))] : []
        return Answers.json(.created, StartedLoginBody.bytes(login), call, adding: cookie)
    }

    private func startLoginInput(_ call: Call) throws(BrokerProblem) -> StartLoginInput {
        var body = try json(call)
        let provider: ProviderName? = body.name("provider", required: !body.contains("step_up"))
        let client: ClientName? = body.name("client")
        let demand = body.object("step_up", stepUpDemand)
        let redirectURI = body.text("redirect_uri", length: 3...2048, where: RequestText.isVisible)
        let scope = scopeList(&body)
        let challenge = body.text("code_challenge", length: 43...43, where: RequestText.isBase64URL)
        let method = body.text("code_challenge_method", length: 1...16)
        if let method, method != "S256" { body.fault("code_challenge_method", .notAllowed) }
        if method != nil, !body.contains("code_challenge") { body.fault("code_challenge", .required) }
        let social = body.text("social_provider", length: 1...63, where: RequestText.isNamePart)
        let parameters = body.members("parameters", maximum: 16) { value in
            guard case .string(let text) = value else { return .wrongType }
            return RequestText.fault(in: text, length: 0...1024, where: RequestText.isASCIIText)
        }
        let token = body.token("login_token", length: 43...128)
        try body.finish()
        var input = StartLoginInput(
            provider: provider, client: client, redirectURI: redirectURI, scope: scope, codeChallenge: challenge,
            codeChallengeMethod: method, socialProvider: social,
            parameters: (parameters ?? []).map { ($0.name, $0.value.string ?? "") },
            loginToken: try credentials(call).loginToken(body: token), charge: charge(call))
        input.evidence = try credentials(call).evidence()
        input.demand = demand
        return input
    }

    /// Reads the member `step_up`.
    private func stepUpDemand(_ body: inout RequestObject) -> StepUpDemand? {
        let text = body.text(
            "acr_values", length: 1...(StepUpDemand.mostClasses * (StepUpDemand.longestClass + 1)),
            where: RequestText.isScopeList)
        let classes = text.map { $0.split(separator: " ", omittingEmptySubsequences: false).map(String.init) } ?? []
        if text != nil, !StepUpDemand.areClasses(classes) { body.fault("acr_values", .malformed) }
        let age = body.integer("max_age", in: 0...StepUpDemand.longestAge)
        if text == nil, age == nil, !body.contains("acr_values"), !body.contains("max_age") {
            body.fault("acr_values", .required)
        }
        return StepUpDemand(contextClasses: classes, maximumAge: age)
    }

    /// Returns the words of the member `scope`.
    func scopeList(_ body: inout RequestObject) -> [String]? {
        guard let text = body.text("scope", length: 1...2048, where: RequestText.isScopeList) else { return nil }
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        if parts.contains("") { body.fault("scope", .malformed) }
        return parts.map(String.init)
    }

    /// `GET /v1/providers`: the data that an app needs to draw its sign-in buttons.
    @Sendable func listProviders(_ call: Call) async throws(BrokerProblem) -> Answer {
        Answers.json(.ok, shared: constants.providers, call)
    }
}

extension BrokerAPI {
    /// `POST /v1/registrations`: finishes a Zephr partial registration (flow E).
    @Sendable func finishRegistration(_ call: Call) async throws(BrokerProblem) -> Answer {
        let input = try finishRegistrationInput(call)
        return created(try await useCases.finishRegistration.finish(input), call)
    }

    private func finishRegistrationInput(_ call: Call) throws(BrokerProblem) -> FinishRegistrationInput {
        var body = try json(call)
        let provider: ProviderName? = body.name("provider", required: true)
        let client: ClientName? = body.name("client")
        let stateKey = body.opaque("state_key", required: true)
        let attributes = body.members("attributes", required: true, maximum: 64) { value in
            switch value {
            case .string(let text): RequestText.fault(in: text, length: 0...1024) { _ in true }
            case .number, .bool: nil
            case .object, .array, .null: .wrongType
            }
        }
        let token = body.token("login_token", length: 43...128)
        try body.finish()
        guard let provider, let stateKey, let attributes else { throw BrokerProblem(.invalidRequest) }
        var input = FinishRegistrationInput(
            provider: provider, client: client, stateKey: stateKey, attributes: attributes,
            loginToken: try credentials(call).loginToken(body: token),
            presentedSession: try credentials(call).cookieOrBearer(),
            charge: charge(call))
        input.evidence = try credentials(call).evidence()
        return input
    }
}
