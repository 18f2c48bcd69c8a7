import Broker
import BrokerTestSupport
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("Backends that demand a sign-in, over HTTP", .timeLimit(.minutes(1)))
struct StepUpRouteTests {
    private static let form =
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange"
        + "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&subject_token="

    /// Completes a step-up of a session at another replica.
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

    /// A broker whose backend requires a demand, and the fields of the backend's requests about a session.
    private func asking(
        _ demand: StepUpDemand, _ signIn: SignInFacts = SignInFacts()
    ) async throws -> (harness: HTTPHarness, fields: HTTPFields) {
        let harness = try HTTPHarness { configuration, vault in
            var backend = Backends.orders(vault)
            backend.require = demand
            configuration.backends = [backend]
        }
        harness.provider.change { $0.signIn = signIn }
        var fields = Backends.proof
        fields[Backends.session] = try await harness.signIn().token.reveal()
        return (harness, fields)
    }

    @Test(
        "A session's sign-in is below a backend's demand → the challenge in `WWW-Authenticate` has the demanded `acr` and age"
    )
    func challenge() async throws {
        for (demand, words) in [
            (StepUpDemand(maximumAge: 300), #"max_age="300""#),
            (StepUpDemand(contextClasses: ["mfa"]), #"acr_values="mfa""#),
            (StepUpDemand(contextClasses: ["mfa", "phr"], maximumAge: 60), #"acr_values="mfa phr", max_age="60""#),
        ] {
            let (harness, fields) = try await asking(demand)
            let reply = try await harness.send(.get, "/v1/forward-auth", fields)
            let field = #"Bearer error="insufficient_user_authentication", "# + words
            #expect(reply.status == 401 && reply.headers[.wwwAuthenticate] == field)
        }
    }

    @Test("The query of forward-auth demands less than the backend's `require` → the stricter `require` still applies")
    func weakerQuery() async throws {
        let silver = SignInFacts(contextClass: "silver", authenticatedAt: TestClock.start.seconds)
        let (harness, fields) = try await asking(StepUpDemand(contextClasses: ["gold"]), silver)
        for (query, code) in [
            ("acr=silver", "step_up_failed"), ("acr=silver%20gold", "step_up_required"),
            ("max_age=600", "step_up_required"),
        ] {
            let reply = try await harness.send(.get, "/v1/forward-auth?" + query, fields)
            #expect(reply.code == code && reply.header("X-Auth-Subject") == nil, "\(query) \(reply.body)")
        }
    }

    @Test(
        "A backend's call is refused, and the user steps up at another replica → the next call is served, despite an old cache"
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
