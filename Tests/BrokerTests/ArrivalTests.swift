import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Callbacks with or without a code, a state, an `iss` and an error, in the flows A, B, C and D.
@Suite(.timeLimit(.minutes(2))) struct ArrivalTests {
    private static let hosted = "https://auth.example.com/callback/as"
    private let verifier = Secret(String(repeating: "v", count: 43))

    /// A broker whose clients use all flows.
    ///
    /// The broker has two providers. `issuer` is the issuer of the first one; nil if it is unknown.
    private func broker(issuer: String? = "https://as.example", demanded: Bool = false) throws -> TestBroker {
        let clock = TestClock()
        let other = ScriptedProvider(
            profile: ProviderProfile(
                name: ProviderName(unchecked: "other"), kind: .oidc, displayName: "", issuer: "https://other.example",
                callbackIssuer: "https://other.example/{tenant}/v2.0",
                clients: [ClientProfile(name: ClientName(unchecked: "x"), redirectURIs: [])]), clock: clock)
        let client = { (name: String, redirect: String, mode: ClientProfile.LoginMode) in
            ClientProfile(
                name: ClientName(unchecked: name), login: mode,
                redirectURIs: [RedirectURI(redirect)].compactMap { $0 }, scope: ["openid"],
                allowedParameters: ["prompt", "max_age", "acr_values", "claims"])
        }
        var web = client("web", Self.hosted, .broker)
        web.hostedCallbackTo = "com.example.web:/back"
        var script = ScriptedProvider.Script()
        script.issuer = IssuerExpectation(issuer: issuer, demanded: demanded)
        return try TestBroker(
            clients: [
                client("ios", TestBroker.redirect, .both), client("own", "com.example.own:/cb", .app),
                client("strict", "com.example.strict:/cb", .broker), web,
            ], script: script, also: [other])
    }

    /// Finishes a login of flow A, B or C with a callback of this query.
    ///
    /// Returns the code of the problem; nil if a session begins.
    private func outcome(_ flow: String, _ broker: TestBroker, _ query: String) async throws -> String? {
        switch flow {
        case "A":
            let login = try await broker.start()
            let url = "\(TestBroker.redirect)?state=\(login.state.reveal())&\(query)"
            return await problem { try await broker.forward(url, login.loginToken) }?.code.rawValue
        case "B":
            var input = ForwardCodeInput()
            input.callbackURL = "\(TestBroker.redirect)?state=mine&\(query)"
            input.provider = ProviderName(unchecked: "as")
            input.client = ClientName(unchecked: "ios")
            input.state = Secret("mine")
            input.codeVerifier = verifier
            return await problem { try await broker.forward(input) }?.code.rawValue
        default:
            let login = try await broker.start("web")
            let link = try await broker.useCases.hostedCallback.receive(
                provider: ProviderName(unchecked: "as"),
                parameters: FormPairs(parsing: "state=\(login.state.reveal())&\(query)")
            ).reveal()
            let answer = try FormPairs(parsing: String(link.split(separator: "?")[1]))
            guard let handoff = answer["handoff"] else { return answer["error"] }
            var input = ForwardCodeInput()
            input.handoff = Secret(handoff)
            input.loginToken = login.loginToken
            return await problem { try await broker.forward(input) }?.code.rawValue
        }
    }

    // MARK: The issuer

    @Test(
        "The provider's issuer is unknown → a callback's `iss` is accepted and logged, unless it is another provider's (SEC-09)",
        arguments: ["A", "B", "C"])
    func unknownIssuer(_ flow: String) async throws {
        let broker = try broker(issuer: nil)
        #expect(try await outcome(flow, broker, "code=c1&iss=https%3A%2F%2Fnew.example") == nil)
        let told = broker.events.all.filter { if case .issuerUnchecked = $0 { true } else { false } }
        #expect(!told.isEmpty)
        #expect(try await outcome(flow, broker, "code=c2") == nil)
        #expect(
            try await outcome(flow, broker, "code=c3&iss=https%3A%2F%2Fother.example%2Facme%2Fv2.0")
                == "issuer_mismatch")
        #expect(broker.provider.grants == 2)
    }

    @Test(
        "A callback has an `iss` → it must equal the provider's issuer byte for byte, except for a template's tenant (SEC-09)",
        arguments: ["A", "B", "C"])
    func knownIssuer(_ flow: String) async throws {
        let fixed = try broker(issuer: "https://as.example")
        #expect(try await outcome(flow, fixed, "code=c1&iss=https%3A%2F%2Fas.example") == nil)
        #expect(try await outcome(flow, fixed, "code=c2") == nil)
        #expect(try await outcome(flow, fixed, "code=c3&iss=https%3A%2F%2Fas.example%2F") == "issuer_mismatch")
        let template = try broker(issuer: "https://as.example/{tenant}/v2.0", demanded: true)
        #expect(try await outcome(flow, template, "code=c1&iss=https%3A%2F%2Fas.example%2Fa-1%2Fv2.0") == nil)
        for iss in [
            "https://as.example//v2.0", "https://as.example/a/b/v2.0", "https://as.example/a/v2.0/",
            "https://as.example/{tenant}/v2.0", "https://as.example/v2.0", "https://evil.example/a/v2.0",
        ] {
            let query = "code=c2&iss=" + FormPairs.encode(iss)
            #expect(try await outcome(flow, template, query) == "issuer_mismatch", "\(iss)")
        }
        #expect(try await outcome(flow, template, "code=c3") == "issuer_mismatch")
    }

    // MARK: Errors

    private static let errors: [(query: String, code: ProblemCode, word: String?)] = [
        ("error=access_denied", .accessDenied, "access_denied"),
        ("error=login_required", .interactionRequired, "login_required"),
        ("error=interaction_required", .interactionRequired, "interaction_required"),
        ("error=account_selection_required", .interactionRequired, "account_selection_required"),
        ("error=consent_required", .accessDenied, "consent_required"),
        ("error=user_cancelled_login", .accessDenied, nil), ("error=unauthorized-user", .accessDenied, nil),
        ("error=temporarily_unavailable", .providerUnavailable, "temporarily_unavailable"),
        ("error=server_error", .providerUnavailable, "server_error"),
        ("error=invalid_scope", .providerError, "invalid_scope"),
        ("error=unauthorized_client", .providerError, "unauthorized_client"),
        ("error=%3Cscript%3E", .providerError, nil), ("error=", .providerError, nil),
        ("error_code=1349187", .providerError, nil), ("denied=t0ken", .accessDenied, nil),
    ]

    @Test(
        "A callback has an error, in any form that providers send → flows A, B, C give the same problem code and burn no login",
        arguments: ["A", "B", "C"])
    func dialects(_ flow: String) async throws {
        let broker = try broker()
        for error in Self.errors {
            let code = try await outcome(flow, broker, error.query + "&iss=https%3A%2F%2Fas.example")
            #expect(code == error.code.rawValue, "\(error.query)")
        }
        #expect(broker.provider.grants == 0 && broker.burned == 0)
    }

    @Test(
        "A callback has an error code → the app's problem repeats the code only if it is standard and in the parameter `error`"
    )
    func words() async throws {
        let broker = try broker()
        for error in Self.errors {
            let login = try await broker.start()
            let url = "\(TestBroker.redirect)?state=\(login.state.reveal())&\(error.query)"
            let problem = await problem { try await broker.forward(url, login.loginToken) }
            #expect(problem?.providerError == error.word, "\(error.query)")
            #expect(problem?.privateDetail?.contains("script") == false)
        }
    }

    @Test("A login with `prompt=none` gets the error `consent_required` → the app gets `interaction_required`")
    func consent() async throws {
        let broker = try broker()
        let login = try await broker.useCases.startLogin.start(
            StartLoginInput(
                provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"),
                parameters: [("prompt", "none")]))
        let url = "\(TestBroker.redirect)?state=\(login.state.reveal())&error=consent_required"
        #expect(await problem { try await broker.forward(url, login.loginToken) }?.code == .interactionRequired)
    }

    // MARK: Flow D

    private func arrival(_ query: String, _ change: (inout ForwardCodeInput) -> Void = { _ in }) -> ForwardCodeInput {
        var input = ForwardCodeInput()
        input.callbackURL = TestBroker.redirect + query
        change(&input)
        return input
    }

    @Test(
        "A callback lacks a code or a state → `login_required`, even if the forward names a client (SEC-15)"
    )
    func arrivals() async throws {
        let broker = try broker()
        let named = { (input: inout ForwardCodeInput) in
            input.provider = ProviderName(unchecked: "as")
            input.client = ClientName(unchecked: "ios")
        }
        let cases: [ForwardCodeInput] = [
            arrival(""), arrival("?code=c"), arrival("?code=c", named), arrival("?state=unknown"),
            arrival("?code=c") {
                named(&$0)
                $0.state = Secret("s")
                $0.codeVerifier = verifier
            },
            arrival("?state=s") {
                named(&$0)
                $0.state = Secret("s")
                $0.codeVerifier = verifier
            },
        ]
        for input in cases {
            let problem = await problem { try await broker.forward(input) }
            #expect(problem?.code == .loginRequired && problem?.login != nil, "\(input.callbackURL ?? "")")
        }
        let login = try await broker.start()
        let codeless = "\(TestBroker.redirect)?state=\(login.state.reveal())&iss=https%3A%2F%2Fas.example"
        #expect(await problem { try await broker.forward(codeless, login.loginToken) }?.code == .loginRequired)
        _ = try await broker.forward(broker.callback(login, code: "late"), login.loginToken)
        let denied = await problem { try await broker.forward(arrival("?error=access_denied", named)) }
        #expect(denied?.code == .accessDenied && denied?.login == nil)
        #expect(broker.provider.grants == 1)
    }

    @Test("A forward of flow B has callback URL, provider, client and verifier → accepted without a state")
    func wholeForward() async throws {
        let broker = try broker()
        _ = try await broker.forward(
            arrival("?code=c") {
                $0.provider = ProviderName(unchecked: "as")
                $0.client = ClientName(unchecked: "ios")
                $0.codeVerifier = verifier
            })
        #expect(broker.provider.grants == 1)
    }

    @Test(
        "The provider starts a sign-in → the app gets a login and finishes it as in flow B; another client's callback is refused"
    )
    func handed() async throws {
        let broker = try broker()
        var input = ForwardCodeInput()
        input.callbackURL = "com.example.own:/cb"
        let login = try #require(await problem { try await broker.forward(input) }?.login)
        input.callbackURL = "com.example.own:/cb?code=c&state=\(login.state.reveal())&iss=https%3A%2F%2Fas.example"
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "own")
        input.codeVerifier = verifier
        input.loginToken = login.loginToken
        _ = try await broker.forward(input)
        let request = try #require(broker.provider.script.withLock { $0.requests.last })
        let grant = try #require(broker.provider.script.withLock { $0.grants.last })
        #expect(grant.verifier.map(broker.vault.codeChallenge(of:)) == request.codeChallenge)
        let foreign = arrival("?code=c") {
            $0.provider = ProviderName(unchecked: "as")
            $0.client = ClientName(unchecked: "strict")
        }
        #expect(await problem { try await broker.forward(foreign) }?.code == .invalidCallback)
    }

    @Test(
        "A hosted callback lacks code or state → the app gets `login_required`; one with an error → the error's problem code"
    )
    func hostedArrivals() async throws {
        let broker = try broker()
        let login = try await broker.start("web")
        for (query, error) in [
            ("code=c", "login_required"), ("", "login_required"), ("state=\(login.state.reveal())", "login_required"),
            ("error=login_required", "interaction_required"), ("denied=x", "access_denied"),
        ] {
            let link = try await broker.useCases.hostedCallback.receive(
                provider: ProviderName(unchecked: "as"), parameters: FormPairs(parsing: query)
            ).reveal()
            #expect(link.contains("error=\(error)"), "\(query): \(link)")
        }
        #expect(broker.provider.grants == 0)
    }

    // MARK: Faults found before the code is spent

    @Test(
        "The provider's kind rejects a callback, or a forward lacks the callback URL → refused before a call could spend the code"
    )
    func beforeSpending() async throws {
        let broker = try broker()
        broker.provider.script.withLock { $0.callbackFault = "no merchant" }
        let login = try await broker.start()
        #expect(
            await problem { try await broker.forward(broker.callback(login), login.loginToken) }?.code
                == .invalidCallback)
        var bare = ForwardCodeInput()
        bare.provider = ProviderName(unchecked: "as")
        bare.client = ClientName(unchecked: "ios")
        bare.code = Secret("c")
        bare.codeVerifier = verifier
        #expect(
            await problem { try await broker.forward(bare) }?.errors == [FieldFault("/callback_url", .required)])
        #expect(broker.provider.grants == 0)
        broker.provider.script.withLock { $0.callbackFault = nil }
        _ = try await broker.forward(broker.callback(login), login.loginToken)
    }

    @Test("A token answer is unusable, but has tokens → the login fails, and the tokens are revoked")
    func unusable() async throws {
        let broker = try broker()
        broker.provider.script.withLock { $0.refusal = "not a Bearer token" }
        let login = try await broker.start()
        #expect(
            await problem { try await broker.forward(broker.callback(login), login.loginToken) }?.code
                == .providerError)
        #expect(try await broker.store.outboxCount() == 1)
        _ = try await Revocations(broker.context).work()
        #expect(broker.provider.script.withLock { $0.revoked } == 1)
    }

    @Test(
        "A token answer lacks `scope` → flow A uses the login's scope if `when_absent: requested`; an empty `scope` stays empty"
    )
    func scopes() async throws {
        for (assumes, answered, expected) in [
            (true, nil, ["openid"]), (false, nil, []), (true, ["email"], ["email"]), (true, [], []),
        ] as [(Bool, [String]?, [String])] {
            var client = ClientProfile(
                name: ClientName(unchecked: "ios"), login: .both,
                redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid"])
            client.assumesScope = assumes
            let broker = try TestBroker(clients: [client])
            broker.provider.script.withLock { $0.scope = answered }
            let login = try await broker.start()
            let first = try await broker.forward(broker.callback(login, code: "a"), login.loginToken)
            #expect(first.session.scope == expected)
            var bare = ForwardCodeInput()
            bare.provider = ProviderName(unchecked: "as")
            bare.code = Secret("b")
            bare.codeVerifier = verifier
            #expect(try await broker.forward(bare).session.scope == answered ?? [])
        }
    }

    @Test(
        "A flow-B forward has a `scope` → used if the answer has none and `when_absent: requested`; a forbidden `scope` → refused"
    )
    func scopeOfAppLogin() async throws {
        func input(_ code: String, _ scope: [String]?, whole: Bool = false) -> ForwardCodeInput {
            var input = ForwardCodeInput()
            input.provider = ProviderName(unchecked: "as")
            if whole {
                input.callbackURL = TestBroker.redirect + "?code=\(code)&state=own&iss=https%3A%2F%2Fas.example"
                input.state = Secret("own")
            } else {
                input.code = Secret(code)
            }
            input.codeVerifier = verifier
            input.scope = scope
            return input
        }
        for (answered, assumes, expected) in [
            (nil, true, ["openid"]), (["email"], true, ["email"]), (nil, false, []),
        ] as [([String]?, Bool, [String])] {
            var client = ClientProfile(
                name: ClientName(unchecked: "ios"), login: .both,
                redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid", "email"])
            client.assumesScope = assumes
            let broker = try TestBroker(clients: [client], script: .init(scope: answered))
            for whole in [false, true] {
                let refused = await problem {
                    try await broker.forward(input("a\(whole)", ["openid", "admin"], whole: whole))
                }
                #expect(refused?.errors == [FieldFault("/scope", .notAllowed)])
                #expect(
                    try await broker.forward(input("b\(whole)", ["openid"], whole: whole)).session.scope == expected)
            }
            #expect(broker.provider.grants == 2)
        }
    }

    @Test(
        "A pushed request's URL is valid for 60 s → `openBy` is in 60 s, but the sign-in may finish within ten minutes")
    func pushedLifetime() async throws {
        let broker = try broker()
        broker.provider.script.withLock { $0.urlLifetime = .seconds(60) }
        let login = try await broker.start()
        #expect(login.openBy == broker.clock.now.advanced(by: .seconds(60)))
        #expect(login.expiresAt == broker.clock.now.advanced(by: .seconds(600)))
        broker.clock.advance(.seconds(599))
        _ = try await broker.forward(broker.callback(login), login.loginToken)
        let late = try await broker.start()
        broker.clock.advance(.seconds(600))
        #expect(
            await problem { try await broker.forward(broker.callback(late), late.loginToken) }?.code == .loginExpired)
        for lifetime in [Duration.seconds(600), .seconds(86_400)] {
            broker.provider.script.withLock { $0.urlLifetime = lifetime }
            let other = try await broker.start()
            #expect(other.openBy == nil && other.expiresAt == broker.clock.now.advanced(by: .seconds(600)))
        }
    }

    @Test(
        "A login's pushed URL expires, and the device starts again → the same login token, and a new URL that is valid for 60 s"
    )
    func joining() async throws {
        let broker = try broker()
        broker.provider.script.withLock { $0.urlLifetime = .seconds(60) }
        let first = try await broker.start()
        broker.clock.advance(.seconds(61))
        let second = try await broker.start(loginToken: first.loginToken)
        #expect(second.loginToken.reveal() == first.loginToken.reveal())
        #expect(second.openBy == broker.clock.now.advanced(by: .seconds(60)))
        #expect(broker.provider.script.withLock { Set($0.requests.map { $0.state.reveal() }).count } == 2)
        _ = try await broker.forward(broker.callback(second), second.loginToken)
    }

    @Test(
        "The token answer of a login with `max_age`, `acr_values` and `claims` is lost → the next login has the same demands"
    )
    func demands() async throws {
        let broker = try broker()
        let claims = #"{"id_token":{"acr":{"essential":true}}}"#
        let asked = [("max_age", "300"), ("acr_values", "a b"), ("claims", claims)]
        let input = StartLoginInput(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"), parameters: asked)
        let login = try await broker.useCases.startLogin.start(input)
        broker.provider.script.withLock { $0.redeem = [.lost(detail: "")] }
        _ = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        let again = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        #expect(again?.code == .loginRequired)
        let last = try #require(broker.provider.script.withLock { $0.requests.last })
        #expect(last.parameters.map(\.name) == ["max_age", "acr_values", "claims"])
        let next = try #require(again?.login)
        _ = try await broker.forward(broker.callback(next, code: "c9"), next.loginToken)
        let demands = try #require(broker.provider.script.withLock { $0.contexts.last?.demands })
        #expect(demands.maximumAge == 300 && demands.contextClasses == ["a", "b"] && demands.claims == claims)
        var malformed = input
        malformed.parameters = [("claims", "{"), ("max_age", "soon")]
        #expect(
            await problem { try await broker.useCases.startLogin.start(malformed) }?.errors == [
                FieldFault("/parameters/claims", .malformed), FieldFault("/parameters/max_age", .malformed),
            ])
    }
}
