import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Callbacks that the broker accepts or refuses, in logins that the broker started (flow A).
@Suite(.timeLimit(.minutes(2))) struct BrokerLoginTests {
    // MARK: Refusals

    @Test("A stranger tries to finish a login → the login is burned, and its starter cannot finish it (SEC-05)")
    func stranger() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let other = try await broker.start()
        #expect(
            await problem { try await broker.forward(broker.callback(login), other.loginToken) }?.code == .loginNotYours
        )
        #expect(
            await problem { try await broker.forward(broker.callback(login), login.loginToken) }?.code == .stateMismatch
        )
        let third = try await broker.start()
        #expect(await problem { try await broker.forward(broker.callback(third), nil) }?.code == .loginNotYours)
        #expect(broker.provider.grants == 0)
    }

    @Test("A state or login token is sent as a session token, or a state as a login token → refused (SEC-06)")
    func namespaces() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        #expect(await problem { try await broker.useCases.resumeSession.resume(login.state) }?.code == .sessionRequired)
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(login.loginToken) }?.code == .sessionRequired
        )
        #expect(await problem { try await broker.forward(broker.callback(login), login.state) }?.code == .loginNotYours)
    }

    @Test(
        "A callback's state is missing, empty or unknown → refused without a token call; the real login still finishes (SEC-04)"
    )
    func states() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let issuer = "&iss=https%3A%2F%2Fas.example"
        for (query, code) in [
            ("code=c" + issuer, ProblemCode.loginRequired), ("code=c&state=" + issuer, .loginRequired),
            ("code=c&state=unknown" + issuer, .stateMismatch),
        ] {
            let fresh = try await broker.start()
            let url = "\(TestBroker.redirect)?\(query)"
            #expect(await problem { try await broker.forward(url, fresh.loginToken) }?.code == code, "\(query)")
        }
        #expect(broker.provider.grants == 0)
        _ = try await broker.forward(broker.callback(login), login.loginToken)
    }

    @Test(
        "A login's callback comes after ten minutes → `login_expired`; a used state with another code → `state_mismatch` (SEC-04)"
    )
    func lateAndAgain() async throws {
        let broker = try TestBroker()
        let late = try await broker.start()
        let used = try await broker.start()
        _ = try await broker.forward(broker.callback(used, code: "c1"), used.loginToken)
        #expect(
            await problem { try await broker.forward(broker.callback(used, code: "c2"), used.loginToken) }?.code
                == .stateMismatch)
        broker.clock.advance(.seconds(601))
        #expect(
            await problem { try await broker.forward(broker.callback(late), late.loginToken) }?.code == .loginExpired)
        #expect(broker.provider.grants == 1)
    }

    @Test(
        "A callback is refused → one `loginRefused` event; if a stranger sent it and burned a login → one `loginBurned` instead"
    )
    func told() async throws {
        let broker = try TestBroker()
        func refusal(_ work: () async throws -> Void) async -> [ProblemCode] {
            let before = broker.events.all.count
            try? await work()
            return broker.events.all.dropFirst(before).compactMap { event in
                if case .loginRefused(_, _, let code, _) = event { code } else { nil }
            }
        }
        let other = try await broker.start()
        let waiting = try await broker.start()
        #expect(await refusal { _ = try await broker.forward(broker.callback(waiting), other.loginToken) }.isEmpty)
        #expect(broker.burned == 1)
        let used = try await broker.start()
        _ = try await broker.forward(broker.callback(used, code: "c1"), used.loginToken)
        let strangers = await refusal {
            _ = try await broker.forward(broker.callback(used, code: "c2"), other.loginToken)
        }
        #expect(strangers == [.loginNotYours] && broker.burned == 1)
        #expect(
            await refusal { _ = try await broker.forward(broker.callback(used, code: "c1"), other.loginToken) }
                == [.codeAlreadyUsed])
        #expect(
            await refusal { _ = try await broker.forward(broker.callback(used, code: "c2"), used.loginToken) }
                == [.stateMismatch])
        let refused = try await broker.start()
        let url = "\(TestBroker.redirect)?error=access_denied&state=\(refused.state.reveal())"
        #expect(
            await refusal {
                _ = try await broker.forward(url + "&iss=https%3A%2F%2Fas.example", refused.loginToken)
            } == [.accessDenied])
        let late = try await broker.start()
        broker.clock.advance(.seconds(601))
        #expect(
            await refusal { _ = try await broker.forward(broker.callback(late), late.loginToken) } == [.loginExpired])
    }

    @Test(
        "The provider promises `iss`, and a callback's `iss` is missing, empty or different → `issuer_mismatch` (SEC-09)",
        arguments: ["", "&iss=", "&iss=https%3A%2F%2Fas.example%2F", "&iss=https%3A%2F%2Fevil.example"])
    func issuers(_ extra: String) async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        #expect(
            await problem { try await broker.forward(broker.callback(login, extra: extra), login.loginToken) }?.code
                == .issuerMismatch)
        #expect(broker.provider.grants == 0)
    }

    @Test(
        "A callback has a wrong redirect URI, a repeated parameter or a token → `invalid_callback` (SEC-11, SEC-12, SEC-01)",
        arguments: [
            "com.example.strict:/cb?code=c&state=STATE", "com.example.app:/other?code=c&state=STATE",
            "com.example.app:/cb?code=c&code=d&state=STATE", "com.example.app:/cb?code=c&state=STATE&state=x",
            "com.example.app:/cb?code=c&state=STATE#x", "com.example.app:/cb?access_token=t&state=STATE",
        ])
    func callbacks(_ template: String) async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let url = template.split(separator: "STATE", omittingEmptySubsequences: false).joined(
            separator: login.state.reveal())
        #expect(await problem { try await broker.forward(url, login.loginToken) }?.code == .invalidCallback)
        #expect(broker.provider.grants == 0)
    }

    @Test(
        "A callback has both an error and a code → the error is reported, the code stays unused, and the login ends (SEC-13)"
    )
    func errorCallback() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let denied = "\(TestBroker.redirect)?error=access_denied&code=c&state=\(login.state.reveal())"
        #expect(await problem { try await broker.forward(denied, login.loginToken) }?.code == .accessDenied)
        #expect(
            await problem { try await broker.forward(broker.callback(login), login.loginToken) }?.code == .stateMismatch
        )
        #expect(broker.burned == 0)
        let markup = try await broker.start()
        let url = "\(TestBroker.redirect)?error=%3Cscript%3E&state=\(markup.state.reveal())"
        let problem = await problem { try await broker.forward(url, markup.loginToken) }
        #expect(problem?.code == .providerError && problem?.detail == nil)
        #expect(broker.provider.grants == 0)
    }

    @Test(
        "An app's verifier is missing, wrong or malformed in the forward → the forward is refused before the token call (SEC-03)"
    )
    func verifiers() async throws {
        let broker = try TestBroker()
        let verifier = try broker.vault.randomToken()
        func start() async throws -> StartedLogin {
            try await broker.useCases.startLogin.start(
                StartLoginInput(
                    provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"),
                    codeChallenge: broker.vault.codeChallenge(of: verifier), codeChallengeMethod: "S256"))
        }
        func forward(_ login: StartedLogin, _ verifier: Secret?) async throws -> SignedIn {
            var input = ForwardCodeInput()
            input.callbackURL = broker.callback(login, code: "c-\(login.loginID)")
            input.loginToken = login.loginToken
            input.codeVerifier = verifier
            return try await broker.forward(input)
        }
        let login = try await start()
        #expect(await problem { try await forward(login, nil) }?.errors == [FieldFault("/code_verifier", .required)])
        #expect(
            await problem { try await forward(login, Secret(String(repeating: "a", count: 43))) }?.code
                == .verifierMismatch)
        for bad in [
            String(repeating: "a", count: 42), String(repeating: "a", count: 129), String(repeating: "ä", count: 43),
        ] {
            #expect(
                await problem { try await forward(login, Secret(bad)) }?.errors == [
                    FieldFault("/code_verifier", .malformed)
                ])
        }
        #expect(broker.provider.grants == 0)
        _ = try await forward(login, verifier)
        #expect(broker.provider.script.withLock { $0.grants.first?.verifier?.reveal() } == verifier.reveal())

        let ours = try await broker.start()
        #expect(
            await problem { try await forward(ours, verifier) }?.errors == [FieldFault("/code_verifier", .notAllowed)])
    }

    @Test("A request to start a login has several forbidden values → the refusal names all of them (SEC-07, SEC-08)")
    func orders() async throws {
        let broker = try TestBroker()
        let input = StartLoginInput(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"),
            redirectURI: "https://evil.example/cb", scope: ["openid", "admin"], codeChallenge: "short",
            codeChallengeMethod: "plain", socialProvider: "google",
            parameters: [("redirect_uri", "x"), ("login_hint", "a\nb"), ("max_age", "-1")])
        let problem = await problem { try await broker.useCases.startLogin.start(input) }
        #expect(problem?.code == .invalidRequest)
        #expect(
            Set(problem?.errors.map(\.pointer) ?? []) == [
                "/redirect_uri", "/scope", "/code_challenge", "/code_challenge_method", "/social_provider",
                "/parameters/redirect_uri", "/parameters/login_hint", "/parameters/max_age",
            ])
        #expect(broker.provider.script.withLock { $0.requests.isEmpty })
    }

    @Test("The cap of pending logins is reached → new starts are refused, but a pending login can finish (SEC-119)")
    func caps() async throws {
        var settings = BrokerSettings()
        settings.loginLimits = LoginLimits(pending: 3, pendingPerToken: 2)
        let broker = try TestBroker(settings: settings)
        let first = try await broker.start()
        _ = try await broker.start(loginToken: first.loginToken)
        #expect(await problem { try await broker.start(loginToken: first.loginToken) }?.code == .rateLimited)
        _ = try await broker.start()
        #expect(await problem { try await broker.start() }?.code == .rateLimited)
        _ = try await broker.forward(broker.callback(first), first.loginToken)
    }

    @Test(
        "A login starts while the provider is unavailable → 503; the provider refuses the login, or its answer is unusable → 502",
        arguments: [
            (ProviderFailure.notSent(detail: ""), ProblemCode.providerUnavailable),
            (.lost(detail: ""), .providerUnavailable),
            (.retryable(status: 503, retryAfter: nil, detail: ""), .providerUnavailable),
            (.unusable(detail: ""), .providerError), (.rejected(OAuthError(status: 400, code: "x")), .providerError),
        ])
    func startFailures(_ failure: ProviderFailure, _ code: ProblemCode) async throws {
        let broker = try TestBroker(script: .init(start: failure))
        #expect(await problem { try await broker.start() }?.code == code)
    }

    // MARK: Successful logins

    @Test(
        "300 logins are started → each has its own state, verifier and nonce, with an S256 challenge (SEC-02, SEC-30)")
    func fresh() async throws {
        var settings = BrokerSettings()
        settings.loginLimits = LoginLimits(pending: 1000, pendingPerToken: 8)
        let broker = try TestBroker(settings: settings)
        for _ in 0..<300 { _ = try await broker.start() }
        let requests = broker.provider.script.withLock { $0.requests }
        #expect(Set(requests.map { $0.state.reveal() }).count == 300)
        #expect(Set(requests.compactMap { $0.nonce?.reveal() }).count == 300)
        #expect(Set(requests.compactMap(\.codeChallenge)).count == 300)
        #expect(requests.allSatisfy { $0.codeChallenge?.utf8.count == 43 })
    }

    @Test(
        "A login's callback is forwarded → its code is redeemed with the broker's verifier and the login's redirect URI and nonce"
    )
    func goodWay() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let signedIn = try await broker.forward(broker.callback(login), login.loginToken)
        let script = broker.provider.script.withLock { $0 }
        let request = try #require(script.requests.first)
        let grant = try #require(script.grants.first)
        let verifier = try #require(grant.verifier)
        #expect(broker.vault.codeChallenge(of: verifier) == request.codeChallenge)
        #expect(grant.redirect == .uri(TestBroker.redirect))
        guard case .exactly(let nonce)? = script.contexts.first?.nonce else { throw BrokerProblem(.internalError) }
        #expect(nonce.reveal() == request.nonce?.reveal())
        #expect(signedIn.session.subject == "user-1")
        #expect(try await broker.useCases.resumeSession.resume(signedIn.token).view.handle == signedIn.session.handle)
    }

    @Test(
        "A device starts a second login while one is pending → both logins have one login token, which can finish both")
    func joined() async throws {
        let broker = try TestBroker()
        let first = try await broker.start()
        let second = try await broker.start(loginToken: first.loginToken)
        #expect(first.loginToken.reveal() == second.loginToken.reveal())
        _ = try await broker.forward(broker.callback(first, code: "a"), first.loginToken)
        _ = try await broker.forward(broker.callback(second, code: "b"), first.loginToken)
        let stranger = Secret(String(repeating: "x", count: 43))
        #expect(try await broker.start(loginToken: stranger).loginToken.reveal() != stranger.reveal())
    }

    @Test(
        "A signed-in device signs in again → its old session is replaced, and the new session has a new token (SEC-36)")
    func replaced() async throws {
        let broker = try TestBroker()
        let old = try await broker.signIn(code: "c1")
        // The old session is in the session cache when the new session replaces it.
        _ = try await broker.useCases.resumeSession.resume(old.token)
        let login = try await broker.start()
        let new = try await broker.forward(broker.callback(login, code: "c2"), login.loginToken, session: old.token)
        #expect(new.token.reveal() != old.token.reveal() && new.session.handle != old.session.handle)
        let problem = await problem { try await broker.useCases.resumeSession.resume(old.token) }
        #expect(problem?.code == .sessionEnded && problem?.reason == .replaced)
        #expect(try await broker.store.outboxCount() == 1)
    }
}
