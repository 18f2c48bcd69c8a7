import Broker
import Hummingbird

extension BrokerAPI {
    /// `POST /v1/logins`: starts a login (flow A).
    @Sendable func startLogin(_ call: Call) async throws(BrokerProblem) -> Response {
        let input = try startLoginInput(call)
        try countLogin(call)
        let login = try await useCases.startLogin.start(input)
        let cookie = login.transport == .cookie
            ? cookies.login(login.loginToken, lifetime: login.expiresAt.since(clock.now())) : nil
        return Answers.json(.created, StartedLoginBody.bytes(login), call, adding: cookie)
    }

    private func startLoginInput(_ call: Call) throws(BrokerProblem) -> StartLoginInput {
        var body = try json(call)
        let provider: ProviderName? = body.requiredName("provider")
        let client: ClientName? = body.name("client")
        let redirectURI = body.text("redirect_uri", maximum: 2048)
        let scope = body.texts("scope", maximumItems: 64, maximum: 256)
        let challenge = body.text("code_challenge", maximum: 128)
        let method = body.text("code_challenge_method", maximum: 16)
        let social = body.text("social_provider", maximum: 63)
        let parameters = body.members("parameters", maximumMembers: 32) { value in
            guard case .string(let text) = value else { return .wrongType }
            return text.utf8.count <= 1024 ? nil : .tooLong
        }
        let token = body.token("login_token", length: 43...128)
        try body.finish()
        guard let provider else { throw BrokerProblem(.invalidRequest) }
        return StartLoginInput(
            provider: provider, client: client, redirectURI: redirectURI, scope: scope, codeChallenge: challenge,
            codeChallengeMethod: method, socialProvider: social,
            parameters: (parameters ?? []).map { ($0.name, $0.value.string ?? "") },
            loginToken: try loginToken(call, body: token))
    }

    /// `GET /v1/providers`: what an app needs to draw its buttons.
    @Sendable func listProviders(_ call: Call) async throws(BrokerProblem) -> Response {
        Answers.json(.ok, ProvidersBody.bytes(useCases.profiles), call)
    }
}
