import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Guarantee 1: the broker makes one token call for each code, and each kind of failure has a defined outcome.
@Suite(.timeLimit(.minutes(2))) struct ExchangeTests {
    @Test(
        "Fifty identical forwards at once → one token call and one session; all get the session's token (SEC-14, SEC-124)"
    )
    func fifty() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let url = broker.callback(login)
        broker.provider.gate.close()
        let answers = try await withThrowingTaskGroup(of: SignedIn.self) { group in
            for _ in 0..<50 { group.addTask { try await broker.forward(url, login.loginToken) } }
            try await eventually("the code's call is at the provider") { broker.provider.gate.waiting > 0 }
            broker.provider.gate.open()
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(broker.provider.grants == 1)
        #expect(Set(answers.map { $0.token.reveal() }).count == 1)
        #expect(Set(answers.map(\.session.handle)).count == 1)
        #expect(answers.count == 50)
    }

    @Test("One forward arrives at two replicas of one store → one token call, and both return the same session token")
    func replicas() async throws {
        let one = try TestBroker()
        let two = try TestBroker(store: one.store, vault: one.vault, provider: one.provider)
        let login = try await one.start()
        let url = one.callback(login)
        async let first = one.forward(url, login.loginToken)
        async let second = two.forward(url, login.loginToken)
        #expect(try await first.token.reveal() == second.token.reveal())
        #expect(one.provider.grants == 1)
    }

    @Test(
        "A stranger forwards a used code → `code_already_used`, without a provider call; the starter still gets its session"
    )
    func stranger() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let signedIn = try await broker.forward(broker.callback(login), login.loginToken)
        let other = try await broker.start()
        #expect(
            await problem { try await broker.forward(broker.callback(login), other.loginToken) }?.code
                == .codeAlreadyUsed)
        #expect(await problem { try await broker.forward(broker.callback(login), nil) }?.code == .codeAlreadyUsed)
        #expect(broker.provider.grants == 1)
        #expect(
            try await broker.forward(broker.callback(login), login.loginToken).token.reveal() == signedIn.token.reveal()
        )
    }

    @Test(
        "A stranger forwards the code of a failed exchange → only `code_already_used`, without a reason or a new login",
        arguments: [ProviderFailure.lost(detail: ""), .rejected(OAuthError(status: 400, code: "invalid_grant"))])
    func strangerAfterFailure(_ failure: ProviderFailure) async throws {
        let broker = try TestBroker(script: .init(redeem: [failure]))
        let login = try await broker.start()
        _ = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        let other = try await broker.start()
        for token in [other.loginToken, nil] {
            let answer = await problem { try await broker.forward(broker.callback(login), token) }
            #expect(answer?.code == .codeAlreadyUsed && answer?.login == nil)
        }
    }

    @Test(
        "A forward without login token and verifier is repeated → `code_already_used`, as its starter cannot be recognised"
    )
    func noProof() async throws {
        let broker = try TestBroker(script: .init(redeem: [.lost(detail: "")]))
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "nopkce")
        input.callbackURL = "clever-x://oauth?code=c&state=s&iss=https%3A%2F%2Fas.example"
        input.state = Secret("s")
        #expect(await problem { try await broker.forward(input) }?.code == .providerUnavailable)
        let second = await problem { try await broker.forward(input) }
        #expect(second?.code == .codeAlreadyUsed && second?.login == nil)
        #expect(broker.provider.grants == 1)
    }

    @Test(
        "A new session is stored, but the store's answer is lost → the session is served, and its tokens stay valid"
    )
    func answerOfTheStoreLost() async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        let login = try await broker.start()
        store.loseNextCompletion()
        let signedIn = try await broker.forward(broker.callback(login), login.loginToken)
        _ = try await broker.useCases.resumeSession.resume(signedIn.token)
        #expect(try await broker.store.outboxCount() == 0)
        #expect(broker.provider.grants == 1)
    }

    @Test(
        "A forward is repeated → for ten minutes, the same session if it still lives; otherwise `code_already_used`"
    )
    func replayWindow() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let url = broker.callback(login)
        let signedIn = try await broker.forward(url, login.loginToken)
        broker.clock.advance(.seconds(599))
        #expect(try await broker.forward(url, login.loginToken).token.reveal() == signedIn.token.reveal())
        broker.clock.advance(.seconds(2))
        #expect(await problem { try await broker.forward(url, login.loginToken) }?.code == .codeAlreadyUsed)

        let second = try await broker.start()
        let ended = try await broker.forward(broker.callback(second, code: "c2"), second.loginToken)
        try await broker.useCases.endSession.logOut(ended.token)
        #expect(
            await problem { try await broker.forward(broker.callback(second, code: "c2"), second.loginToken) }?.code
                == .codeAlreadyUsed)
    }

    @Test(
        "A token call provably never left the broker → the claim is released, and the starter may retry any number of times"
    )
    func notSent() async throws {
        let broker = try TestBroker(script: .init(redeem: Array(repeating: .notSent(detail: ""), count: 5)))
        let login = try await broker.start()
        for _ in 0..<5 {
            #expect(
                await problem { try await broker.forward(broker.callback(login), login.loginToken) }?.code
                    == .providerUnavailable)
        }
        _ = try await broker.forward(broker.callback(login), login.loginToken)
        #expect(broker.provider.grants == 6)
    }

    @Test(
        "The store refuses a write at any step of a forward → the login can be finished after at most two more attempts",
        .timeLimit(.minutes(1)),
        arguments: 0..<8)
    func releaseRefused(_ step: Int) async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store, script: .init(redeem: [.notSent(detail: "")]))
        let login = try await broker.start()
        store.refuse(after: step)
        _ = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        store.refuse(after: nil)
        // At most two further attempts fail: in the first, the store refuses before the provider call; in the second, the call
        // never leaves the broker.
        for _ in 0..<2 {
            let again = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
            if again == nil { return }
            #expect(again?.code == .providerUnavailable || again?.code == .storeUnavailable, "step \(step)")
        }
        _ = try await broker.forward(broker.callback(login), login.loginToken)
    }

    @Test("The provider answers each token call with 500 → at most three calls, then 503 with retry `new_login`")
    func retryable() async throws {
        let failures = Array(
            repeating: ProviderFailure.retryable(status: 500, retryAfter: .seconds(7), detail: ""), count: 9)
        let broker = try TestBroker(script: .init(redeem: failures))
        let login = try await broker.start()
        for round in 1...6 {
            let problem = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
            #expect(problem?.code == .providerUnavailable, "round \(round)")
            #expect(problem?.retryAfter != nil)
            #expect(problem?.retry == (round >= 3 ? "new_login" : nil), "round \(round)")
        }
        #expect(broker.provider.grants == 3)
    }

    @Test(
        "The provider refuses a code with an OAuth error → each forward of it gets `code_rejected`, with a single token call"
    )
    func rejected() async throws {
        let broker = try TestBroker(script: .init(redeem: [.rejected(OAuthError(status: 400, code: "invalid_grant"))]))
        let login = try await broker.start()
        for _ in 0..<3 {
            #expect(
                await problem { try await broker.forward(broker.callback(login), login.loginToken) }?.code
                    == .codeRejected)
        }
        #expect(broker.provider.grants == 1)
    }

    @Test("A token answer is unusable → each forward of the code gets `provider_error`, with a single token call")
    func unusable() async throws {
        let broker = try TestBroker(script: .init(redeem: [.unusable(detail: "")]))
        let login = try await broker.start()
        for _ in 0..<3 {
            #expect(
                await problem { try await broker.forward(broker.callback(login), login.loginToken) }?.code
                    == .providerError)
        }
        #expect(broker.provider.grants == 1)
    }

    @Test(
        "The user's identity is rejected → the code is spent, the answer is 502, and the tokens go to the revocation outbox"
    )
    func identity() async throws {
        let broker = try TestBroker(script: .init(identify: [.identityRejected(detail: "")]))
        let login = try await broker.start()
        for _ in 0..<2 {
            #expect(
                await problem { try await broker.forward(broker.callback(login), login.loginToken) }?.code
                    == .identityRejected)
        }
        #expect(broker.provider.grants == 1)
        #expect(try await broker.store.outboxCount() == 1)
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(broker.provider.script.withLock { $0.revoked } == 1)
        #expect(try await broker.store.outboxCount() == 0)
    }

    @Test(
        "A token answer is lost → 503 with retry `new_login`; a repeated forward gets a new login, without a token call"
    )
    func lost() async throws {
        let broker = try TestBroker(script: .init(redeem: [.lost(detail: "")]))
        let login = try await broker.start()
        let first = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        #expect(first?.code == .providerUnavailable && first?.retry == "new_login")
        let second = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        #expect(second?.code == .loginRequired)
        let fresh = try #require(second?.login)
        _ = try await broker.forward(broker.callback(fresh, code: "c2"), fresh.loginToken)
        #expect(broker.provider.grants == 2)
    }

    @Test(
        "An exchange's owner has died → a forward gets `login_required`, as after a lost answer, without a token call (SEC-56)"
    )
    func ownerDied() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let key = broker.vault.index(.code, ["as", "code-1"])
        let dead = ExchangeRow(
            key: key, proof: broker.vault.digest(login.loginToken), salt: try broker.vault.random(32),
            keyID: broker.vault.currentKeyID, claim: ClaimID(random: try broker.vault.random(16)),
            claimFor: .seconds(25), createdAt: broker.clock.now, gate: .login(broker.vault.digest(login.state)))
        _ = try await broker.store.claimExchange(dead, maximumAttempts: 3)
        broker.clock.advance(.seconds(26))
        #expect(
            await problem { try await broker.forward(broker.callback(login), login.loginToken) }?.code == .loginRequired
        )
        #expect(broker.provider.grants == 0)
    }

    @Test(
        "The app hangs up during a forward → the exchange continues, and the app's retry gets the session",
        .timeLimit(.minutes(1)))
    func hangUp() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let url = broker.callback(login)
        broker.provider.gate.close()
        let request = Task { try await broker.forward(url, login.loginToken) }
        try await eventually("the code's call is at the provider") { broker.provider.gate.waiting > 0 }
        request.cancel()
        #expect(await problem { try await request.value }?.code == .providerUnavailable)
        #expect(broker.provider.gate.waiting == 1)
        broker.provider.gate.open()
        _ = try await broker.forward(url, login.loginToken)
        #expect(broker.provider.grants == 1)
    }

    @Test("The identity call fails twice for a temporary reason → the call is repeated, and the sign-in succeeds")
    func identityInPassing() async throws {
        let broker = try TestBroker(
            script: .init(identify: [.lost(detail: ""), .retryable(status: 503, retryAfter: nil, detail: "")]))
        _ = try await broker.signIn()
        #expect(broker.provider.grants == 1)
        #expect(broker.provider.script.withLock { $0.contexts.count } == 3)
    }

    @Test(
        "An exchange makes several provider calls → the calls share one deadline, twenty seconds after the exchange's start"
    )
    func oneDeadline() async throws {
        let broker = try TestBroker()
        _ = try await broker.signIn()
        let end = broker.clock.clock.monotonic() + .seconds(20)
        #expect(broker.provider.script.withLock { $0.deadlines } == [end, end])
    }
}
