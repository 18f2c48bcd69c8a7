import Broker
import BrokerTestSupport
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("Sign-ins that backends need, over HTTP", .timeLimit(.minutes(1)))
struct StepUpRouteTests {
    private static let form =
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange"
        + "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&subject_token="

    /// Steps a session up at another replica.
    private func stepUp(_ harness: HTTPHarness, _ token: Secret, _ demand: StepUpDemand) async throws {
        let context = BrokerContext(
            clock: harness.clock, spawner: Spawner { _, work in Task { await work() } }, events: EventSink { _ in },
            vault: harness.vault, store: harness.store, providers: ProviderDirectory([harness.provider]),
            cache: SessionCache(), notices: SessionNotices(), settings: harness.context.settings)
        let useCases = BrokerUseCases(context, publicURL: "https://auth.example.com")
        var start = StartLoginInput(provider: nil)
        start.demand = demand
        start.steppingUp = try await useCases.resumeSession.resume(token)
        let login = try await useCases.startLogin.start(start)
        var input = ForwardCodeInput()
        input.callbackURL = "com.example.app:/cb?code=again&state=\(login.state.reveal())"
        input.loginToken = login.loginToken
        input.presentedSession = token
        _ = try await useCases.forwardCode.forward(input)
    }

    @Test(
        "A backend's call is refused, then the user steps up at another replica → the next call is served, despite an older cache"
    )
    func judged() async throws {
        let demand = StepUpDemand(contextClasses: ["mfa"])
        for path in ["/v1/forward-auth", "/v1/token"] {
            let harness = try HTTPHarness { configuration, vault in
                var backend = Backends.orders(vault, token: true)
                backend.require = demand
                configuration.backends = [backend]
            }
            harness.provider.change { $0.signIn = SignInFacts(contextClass: "pwd") }
            let token = try await harness.signIn().token
            func send() async throws -> Reply {
                guard path == "/v1/token" else {
                    var headers = Backends.proof
                    headers[Backends.session] = token.reveal()
                    return try await harness.send(.get, path, headers)
                }
                return try await harness.form(path, Self.form + token.reveal(), Backends.proof)
            }
            #expect(try await send().status == (path == "/v1/token" ? 400 : 401))
            harness.provider.change { script in
                script.signIn = SignInFacts(contextClass: "mfa")
                script.accessToken = "canary-after"
            }
            try await stepUp(harness, token, demand)
            let reply = try await send()
            #expect(reply.status == 200, "\(path) \(reply.body)")
            if path == "/v1/token" {
                #expect(reply.body.contains("canary-after"))
            } else {
                #expect(reply.header("X-Auth-Acr") == "mfa")
                #expect(reply.header("X-Auth-Token") == "canary-after")
            }
        }
    }
}
