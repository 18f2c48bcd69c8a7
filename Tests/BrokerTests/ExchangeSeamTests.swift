import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Exchanges in four situations: the claim lapses, the store is away, the owner of the claim dies, or another app than the
/// login's starter forwards the callback.
@Suite(.timeLimit(.minutes(2))) struct ExchangeSeamTests {
    private func broker(
        _ script: ScriptedProvider.Script = .init(), also others: [any ProviderClient] = []
    ) throws -> (broker: TestBroker, store: InMemoryStore) {
        let clock = TestClock()
        let store = InMemoryStore(monotonic: clock.clock.monotonic)
        return (try TestBroker(store: store, script: script, also: others, clock: clock), store)
    }

    /// The key of the exchange for `code-1`, which is the code that these tests forward.
    private func key(_ broker: TestBroker) -> Digest { broker.vault.index(.code, ["as", "code-1"]) }

    @Test(
        "A process freezes in a token call, its claim lapses, and another process gives up the code → its late tokens are revoked"
    )
    func lapsedOwner() async throws {
        let (frozen, store) = try broker()
        let other = try TestBroker(store: store, vault: frozen.vault, provider: frozen.provider, clock: frozen.clock)
        let login = try await frozen.start()
        let url = frozen.callback(login)
        frozen.provider.redeeming.close()
        async let first = problem { try await frozen.forward(url, login.loginToken) }
        try await eventually("the code's call is at the provider") { frozen.provider.redeeming.waiting > 0 }
        // The owner of the claim is frozen, so its claim lapses.
        let row = try #require(try await store.exchange(key(frozen)))
        #expect(try await store.renewExchange(row.key, fence: row.fence, for: .zero))
        #expect(await problem { try await other.forward(url, login.loginToken) }?.code == .loginRequired)
        frozen.provider.redeeming.open()
        #expect(await first?.retry == "new_login")
        #expect(try await store.outboxCount() == 1)
        #expect(try await Revocations(other.context).work() == 1)
        #expect(other.provider.script.withLock { $0.revoked } == 1)
        #expect(try await store.sessions(.all, .live, after: nil, limit: 9, now: other.clock.now).isEmpty)
    }

    @Test("The provider is slow to answer a token call → the exchange's claim is renewed", .timeLimit(.minutes(1)))
    func renewed() async throws {
        let (broker, store) = try broker()
        let login = try await broker.start()
        broker.provider.redeeming.close()
        let url = broker.callback(login)
        async let answer = broker.forward(url, login.loginToken)
        try await eventually("the code's call is at the provider") { broker.provider.redeeming.waiting > 0 }
        broker.clock.advance(.seconds(9))
        let key = key(broker)
        try await eventually("the claim is renewed") { try await store.exchange(key)?.claimFor == .seconds(25) }
        broker.provider.redeeming.open()
        _ = try await answer
    }

    @Test(
        "The session of a sign-in cannot be stored → the app gets 503 after five seconds; a later forward gets the session"
    )
    func earlyAnswer() async throws {
        let (broker, store) = try broker()
        let login = try await broker.start()
        let url = broker.callback(login)
        store.fail(.completeExchange, Array(repeating: .refused, count: 1_000_000))
        async let answer = problem { try await broker.forward(url, login.loginToken) }
        try await eventually("the broker has tried to store the provider's answer") {
            store.failures(.completeExchange) < 1_000_000
        }
        broker.clock.advance(.seconds(6))
        let early = await answer
        #expect(early?.code == .storeUnavailable && early?.retry == nil && early?.retryAfter != nil)
        store.fail(.completeExchange, [])
        try await eventually("the exchange has an outcome") {
            try await store.exchange(key(broker))?.outcome != .calling
        }
        _ = try await broker.forward(url, login.loginToken)
        #expect(broker.provider.grants == 1)
    }

    @Test(
        "The store's answer to a sign-in that replaces a session is lost → the old session is refused at once, despite the cache"
    )
    func replacedUnheard() async throws {
        let (broker, store) = try broker()
        let old = try await broker.signIn(code: "c0")
        _ = try await broker.useCases.resumeSession.resume(old.token)
        #expect(broker.context.cache.count == 1)
        let login = try await broker.start()
        store.loseNextCompletion()
        _ = try await broker.forward(broker.callback(login), login.loginToken, session: old.token)
        #expect(await problem { try await broker.useCases.resumeSession.resume(old.token) }?.reason == .replaced)
    }

    @Test(
        "The owner of an exchange's claim has died → a waiting caller is answered as soon as the claim has lapsed",
        .timeLimit(.minutes(1)))
    func ownerDies() async throws {
        let (broker, store) = try broker()
        let login = try await broker.start()
        let dead = ExchangeRow(
            key: key(broker), proof: broker.vault.digest(login.loginToken), salt: try broker.vault.random(32),
            keyID: broker.vault.currentKeyID, claim: ClaimID(random: try broker.vault.random(16)),
            claimFor: .seconds(5), createdAt: broker.clock.now, gate: .login(broker.vault.digest(login.state)))
        _ = try await store.claimExchange(dead, maximumAttempts: 3)
        let before = broker.clock.asked.count
        let url = broker.callback(login)
        async let answer = problem { try await broker.forward(url, login.loginToken) }
        try await eventually("a caller waits for the claim") { broker.clock.asked.count > before }
        // The caller is ready to wait for longer than six seconds. But the claim lapses after five seconds, so the caller is
        // answered then.
        broker.clock.advance(.seconds(6))
        #expect(await answer?.code == .loginRequired)
        #expect(broker.provider.grants == 0)
    }

    // MARK: A store that is away for longer than a claim

    /// A forward whose claim has lapsed while the store was away.
    ///
    /// The claim's owner has the provider's answer in memory.
    ///
    /// `isSeen` is true if the other replica has noticed that the store was away.
    private func inHand(isSeen: Bool) async throws -> (
        owner: TestBroker, other: TestBroker, store: InMemoryStore, url: String, token: Secret
    ) {
        let (owner, store) = try broker()
        let other = try TestBroker(store: store, vault: owner.vault, provider: owner.provider, clock: owner.clock)
        let login = try await owner.start()
        let url = owner.callback(login)
        store.fail(.completeExchange, Array(repeating: .refused, count: 1_000_000))
        store.fail(.renewExchange, Array(repeating: .refused, count: 1_000_000))
        async let answer = problem { try await owner.forward(url, login.loginToken) }
        try await eventually("the broker has tried to store the provider's answer") {
            store.failures(.completeExchange) < 1_000_000
        }
        for _ in 0..<8 {
            if isSeen { other.context.memory.store.failed(at: other.clock.monotonic) }
            owner.clock.advance(.seconds(5))
        }
        #expect(await answer?.code == .storeUnavailable)
        return (owner, other, store, url, login.loginToken)
    }

    @Test(
        "An exchange's claim lapses while the store is away, and its owner has the answer → other replicas wait for the owner"
    )
    func awayForLonger() async throws {
        let (owner, other, store, url, token) = try await inHand(isSeen: true)
        async let waiting = problem { try await other.forward(url, token) }
        let asked = other.clock.asked.count
        try await eventually("another replica waits") { other.clock.asked.count > asked + 3 }
        other.clock.advance(.seconds(11))
        let early = await waiting
        #expect(early?.code == .providerUnavailable && early?.retry == nil && early?.login == nil)
        store.fail(.completeExchange, [])
        store.fail(.renewExchange, [])
        try await eventually("the session is stored") {
            if case .session? = try await store.exchange(key(owner))?.outcome { true } else { false }
        }
        _ = try await other.forward(url, token)
        #expect(owner.provider.grants == 1 && store.failures(.completeExchange) == 0)
    }

    @Test("An exchange's owner died while the store was away → the code is given up a minute after the store's return")
    func awayAndDead() async throws {
        let (_, other, store, url, token) = try await inHand(isSeen: true)
        // The store's last failure is five seconds ago.
        other.clock.advance(.seconds(54))
        async let waiting = problem { try await other.forward(url, token) }
        let asked = other.clock.asked.count
        try await eventually("another replica waits") { other.clock.asked.count > asked + 3 }
        other.clock.advance(.seconds(1))
        #expect(await waiting?.code == .loginRequired)
        store.fail(.completeExchange, [])
    }

    @Test(
        "An exchange's claim lapses while the store answers → its owner counts as dead; the app gets `login_required` at once"
    )
    func notAway() async throws {
        let (_, other, store, url, token) = try await inHand(isSeen: false)
        #expect(await problem { try await other.forward(url, token) }?.code == .loginRequired)
        store.fail(.completeExchange, [])
    }

    @Test(
        "A process is suspended in a token call for longer than its claim lasts → a repeated forward waits for this token call"
    )
    func suspended() async throws {
        let (broker, store) = try broker()
        let login = try await broker.start()
        let url = broker.callback(login)
        store.fail(.renewExchange, Array(repeating: .refused, count: 1_000_000))
        broker.provider.redeeming.close()
        async let first = problem { try await broker.forward(url, login.loginToken) }
        try await eventually("the code is at the provider") { broker.provider.redeeming.waiting == 1 }
        broker.clock.advance(.seconds(38))
        let asked = broker.clock.asked.count
        async let second = problem { try await broker.forward(url, login.loginToken) }
        try await eventually("the repeated forward waits") { broker.clock.asked.count > asked + 3 }
        store.fail(.renewExchange, [])
        broker.provider.redeeming.open()
        #expect(await first == nil)
        broker.clock.advance(.seconds(1))
        #expect(await second == nil)
        #expect(broker.provider.grants == 1)
    }

    @Test(
        "An exchange's claim lapses because the store is away → the claim is respected for a minute after the store's return"
    )
    func spared() {
        let lifetime = Duration.seconds(25)
        let watch = StoreWatch(startedAt: .zero)
        func answers(_ seconds: ClosedRange<Int>, of watch: StoreWatch) {
            for second in stride(from: seconds.lowerBound, through: seconds.upperBound, by: 2) {
                watch.answered(at: .seconds(second))
            }
        }
        func spares(_ lapsedFor: Int, at second: Int) -> Bool {
            watch.spared(lifetime, at: .seconds(second)).contains(lapsedFor: .seconds(lapsedFor))
        }
        // A new process knows only the store's failures and answers since its start.
        answers(0...100, of: watch)
        #expect(!spares(0, at: 100) && !spares(30, at: 100))
        // The store is away from second 100 to second 140.
        for second in stride(from: 104, through: 138, by: 4) { watch.failed(at: .seconds(second)) }
        watch.answered(at: .seconds(140))
        #expect(spares(0, at: 140) && spares(39, at: 140))
        // A claim that lapsed 41 s ago had already lapsed when the store went away.
        #expect(!spares(41, at: 140))
        // If a claim lapsed 4 s ago, its owner made or renewed it at 141 s. The store was reachable again then.
        answers(142...170, of: watch)
        #expect(spares(6, at: 170) && !spares(4, at: 170))
        answers(172...198, of: watch)
        #expect(spares(50, at: 199) && !spares(50, at: 200))
        // If the store has not answered for a long time, it counts as away, even before its next answer. The cause may also be
        // that the process itself was suspended.
        answers(200...202, of: watch)
        #expect(!spares(0, at: 212))
        #expect(spares(0, at: 213) && spares(11, at: 213) && !spares(12, at: 213))
        watch.answered(at: .seconds(242))
        #expect(spares(30, at: 242))
        // A process that starts while the store is away cannot know since when the store is away.
        let begun = StoreWatch(startedAt: .seconds(300))
        for second in stride(from: 302, through: 310, by: 2) { begun.failed(at: .seconds(second)) }
        answers(312...312, of: begun)
        #expect(begun.spared(lifetime, at: .seconds(313)).contains(lapsedFor: .seconds(40)))
        answers(314...372, of: begun)
        #expect(begun.spared(lifetime, at: .seconds(372)) == .none)
        // A store that was sent no requests counts as present, although it gave no answers.
        let unasked = StoreWatch(startedAt: .zero)
        #expect(unasked.spared(lifetime, at: .seconds(500)) == .none)
        unasked.failed(at: .seconds(500))
        #expect(unasked.spared(lifetime, at: .seconds(501)).contains(lapsedFor: .zero))
    }

    @Test("A login expires between its look-up and the exchange's claim → `login_expired`")
    func expiresMeanwhile() async throws {
        let (broker, store) = try broker()
        let login = try await broker.start()
        var input = ForwardCodeInput()
        input.callbackURL = broker.callback(login)
        input.loginToken = login.loginToken
        let callback = try CallbackURL(
            parsing: broker.callback(login), queries: broker.context.providers.redirectsWithQuery)
        let row = try #require(try await store.login(state: broker.vault.digest(login.state)))
        let plan = try await BrokerLoginForward(context: broker.context).plan(
            target: callback.target, parameters: callback.parameters, login: row, input: input)
        broker.clock.advance(.seconds(601))
        #expect(await problem { try await ExchangeRunner(context: broker.context).run(plan) }?.code == .loginExpired)
        #expect(broker.provider.grants == 0)
    }

    @Test(
        "A process has the largest allowed number of unwritten results → a forward gets 503, and its code stays unused"
    )
    func full() async throws {
        let (broker, _) = try broker()
        let login = try await broker.start()
        let watch = broker.context.memory.store
        for _ in 0..<StoreWatch.capacity { watch.keepResult() }
        let answer = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        #expect(answer?.code == .storeUnavailable && answer?.retryAfter != nil)
        #expect(broker.provider.grants == 0)
        watch.wroteResult()
        _ = try await broker.forward(broker.callback(login), login.loginToken)
    }

    @Test(
        "By a wrong clock, a repeated forward seems too late → 503; as soon as the clock is right, the forward gets its session"
    )
    func replayByWrongClock() async throws {
        let (broker, _) = try broker()
        let login = try await broker.start()
        let url = broker.callback(login)
        let first = try await broker.forward(url, login.loginToken)
        broker.clock.jump(.seconds(7200))
        let answer = await problem { try await broker.forward(url, login.loginToken) }
        #expect(answer?.code == .storeUnavailable && answer?.retryAfter != nil)
        broker.clock.jump(.seconds(-7200))
        broker.clock.advance(.seconds(1))
        #expect(try await broker.forward(url, login.loginToken).token.reveal() == first.token.reveal())
    }

    @Test(
        "The state in a forward's body differs from the callback's → `state_mismatch`, and the code can still be used")
    func otherState() async throws {
        let (broker, _) = try broker()
        let login = try await broker.start()
        var input = ForwardCodeInput()
        input.callbackURL = broker.callback(login)
        input.loginToken = login.loginToken
        input.state = Secret("another")
        #expect(await problem { try await broker.forward(input) }?.code == .stateMismatch)
        #expect(broker.provider.grants == 0)
        input.state = login.state
        _ = try await broker.forward(input)
    }

    @Test("A sign-in's identity call gets 429 with `Retry-After: 4` → the call is repeated after four seconds")
    func retryAfterOfIdentity() async throws {
        let (broker, _) = try broker(
            .init(identify: [.retryable(status: 429, retryAfter: .seconds(4), detail: "")]))
        let before = broker.clock.asked.count
        _ = try await broker.signIn()
        #expect(broker.clock.asked.dropFirst(before).contains(.seconds(4)))
    }

    @Test(
        "A stranger forwards the code of a failed app login → `code_already_used`, and the login's result stays secret",
        arguments: [ProviderFailure.rejected(OAuthError(status: 400, code: "invalid_grant")), .lost(detail: "")])
    func strangerOfAnAppLogin(_ failure: ProviderFailure) async throws {
        let (broker, _) = try broker(.init(redeem: [failure]))
        func input(_ verifier: Character, _ loginToken: Character) -> ForwardCodeInput {
            var input = ForwardCodeInput()
            input.provider = ProviderName(unchecked: "as")
            input.client = ClientName(unchecked: "ios")
            input.code = Secret("c")
            input.codeVerifier = Secret(String(repeating: verifier, count: 43))
            input.loginToken = Secret(String(repeating: loginToken, count: 43))
            return input
        }
        let first = await problem { try await broker.forward(input("v", "l")) }
        #expect(first?.code == .codeRejected || first?.retry == "new_login")
        let stranger = await problem { try await broker.forward(input("w", "m")) }
        #expect(stranger?.code == .codeAlreadyUsed && stranger?.login == nil)
        #expect(broker.provider.grants == 1)
    }

    // MARK: Zephr

    private func zephr(_ callback: String, _ loginToken: Secret) -> ForwardCodeInput {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "zephr")
        input.client = ClientName(unchecked: "ios")
        input.callbackURL = "\(ScriptedRegistrar.redirect)?\(callback)"
        input.loginToken = loginToken
        return input
    }

    @Test("The answer to a Zephr identity call is lost → the forward gets 503, and the same callback signs in later")
    func accountAskedAgain() async throws {
        let registrar = ScriptedRegistrar()
        registrar.script.withLock { $0.account = [.lost(detail: "")] }
        let (broker, _) = try broker(also: [registrar])
        let input = zephr("status=success&session_id=s1", Secret(String(repeating: "L", count: 43)))
        let first = await problem { try await broker.forward(input) }
        #expect(first?.code == .providerUnavailable && first?.retry == nil)
        _ = try await broker.forward(input)
    }

    @Test(
        "The owner of a registration's exchange has died → the starter gets `login_required`; a stranger gets `state_key_expired`"
    )
    func strangerOfARegistration() async throws {
        let registrar = ScriptedRegistrar()
        let (broker, store) = try broker(also: [registrar])
        let starter = Secret(String(repeating: "L", count: 43))
        let key = broker.vault.index(.stateKey, ["zephr", "key-1"])
        let now = broker.clock.now
        let secrets = RegistrationSecrets(
            provider: registrar.profile.name, client: ClientName(unchecked: "ios"), stateKey: Secret("key-1"),
            identifier: nil, fields: [], device: nil)
        // The app brought the state key itself, so the registration lacks a starter.
        try await store.insertRegistration(
            RegistrationRow(
                key: key, loginTokenDigest: nil, createdAt: now, expiresAt: now.advanced(by: .seconds(900)),
                sealed: try broker.vault.seal(secrets.record, as: .registration, row: key)))
        let dead = ExchangeRow(
            key: broker.vault.digest(Secret("dead")), proof: broker.vault.digest(starter), salt: [], keyID: "k",
            claim: ClaimID(random: []), claimFor: .seconds(25), createdAt: now, gate: .registration(key))
        guard case .claimed = try await store.claimExchange(dead, maximumAttempts: 3) else {
            throw BrokerProblem(.internalError)
        }
        broker.clock.advance(.seconds(26))
        func finish(_ loginToken: Secret) async -> BrokerProblem? {
            await problem {
                try await broker.useCases.finishRegistration.finish(
                    FinishRegistrationInput(
                        provider: registrar.profile.name, client: nil, stateKey: Secret("key-1"),
                        attributes: [(name: "first-name", value: .string("Ana"))], loginToken: loginToken,
                        presentedSession: nil))
            }
        }
        let stranger = await finish(Secret(String(repeating: "M", count: 43)))
        #expect(stranger?.code == .stateKeyExpired && stranger?.login == nil)
        #expect(await finish(starter)?.code == .loginRequired)
        #expect(registrar.registers == 0)
    }
}
