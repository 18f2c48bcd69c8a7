import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

@Suite("Step-up: the new sign-in in its session, and the grant", .timeLimit(.minutes(1)))
struct StepUpSettlementTests {
    @Test("A step-up's answer has the session's own refresh token → the grant continues, and no token is revoked")
    func sameRefreshToken() async throws {
        let broker = try TestBroker(script: .init(onlyRefreshToken: "rt-only"))
        let session = try await broker.signIn()
        let before = try await broker.row(of: session)
        // The sign-in is too weak. Its tokens have the same refresh token as the session, so they must not be revoked.
        broker.signsIn("pwd")
        let refusal = await problem { try await broker.stepUp(session) }
        #expect(refusal?.code == .stepUpFailed)
        #expect(try await broker.store.outboxCount() == 0)
        broker.signsIn("mfa")
        let heard = Mutex<[SessionNotice]>([])
        let listening = broker.context.notices.subscribe(
            before.tokenDigest, of: before.subjectAndClient, limit: 1, version: before.tokenVersion
        ) { notice in heard.withLock { $0.append(notice) } }
        defer { withExtendedLifetime(listening) {} }
        let stepped = try await broker.stepUp(session, code: "code-3")
        #expect(heard.withLock { $0 } == [.tokensRefreshed])
        #expect(stepped.session.signIn.contextClass == "mfa")
        #expect(try await broker.store.outboxCount() == 0)
        let after = try await broker.row(of: session)
        #expect(after.tokenVersion == before.tokenVersion && after.tokens != before.tokens)
        let live = try await broker.useCases.resumeSession.resume(session.token)
        #expect(try await broker.useCases.refreshTokens.accessToken(for: live).token.reveal() == "at-3")
        _ = try await broker.useCases.refreshTokens.refreshNow(live)
        #expect(broker.provider.script.withLock { $0.refreshes.last?.refreshToken.reveal() } == "rt-only")
    }

    /// The provider's answer to a step-up repeats the refresh token that the session had when the code was sent.
    ///
    /// A refresh has rotated this token meanwhile.
    private func overtaken(_ script: ScriptedProvider.Script = .init()) async throws -> (
        broker: TestBroker, session: SignedIn, refusal: BrokerProblem?
    ) {
        let broker = try TestBroker(script: script)
        let session = try await broker.signIn()
        broker.signsIn("mfa")
        broker.provider.redeeming.close()
        async let answer = problem { try await broker.stepUp(session) }
        try await eventually("the step-up's code is at the provider") { broker.provider.redeeming.waiting == 1 }
        let live = try await broker.useCases.resumeSession.resume(session.token)
        _ = try await broker.useCases.refreshTokens.refreshNow(live)
        broker.provider.script.withLock { $0.onlyRefreshToken = "rt-1" }
        broker.provider.redeeming.open()
        let refusal = await answer
        broker.provider.script.withLock { $0.onlyRefreshToken = nil }
        return (broker, session, refusal)
    }

    @Test(
        "A step-up's answer repeats a refresh token that a refresh has just replaced → the newer refresh token stays in use"
    )
    func repeatedRefreshToken() async throws {
        let (broker, session, refusal) = try await overtaken()
        #expect(refusal == nil)
        #expect(try await broker.store.outboxCount() == 0)
        let after = try await broker.row(of: session)
        let stored = try StoredTokens.open(after, broker.context)
        #expect(stored.tokens.refreshToken?.reveal() == "rt-r1" && stored.tokens.accessToken.reveal() == "at-2")
        let live = try await broker.useCases.resumeSession.resume(session.token)
        #expect(live.facts.signIn.contextClass == "mfa")
        broker.clock.advance(.seconds(3601))
        let later = try await broker.useCases.resumeSession.resume(session.token)
        _ = try await broker.useCases.refreshTokens.accessToken(for: later)
        #expect(broker.provider.script.withLock { $0.refreshes.last?.refreshToken.reveal() } == "rt-r1")
    }

    @Test(
        "A step-up fails, and its answer had the session's own refresh token → this token is not revoked",
        arguments: ["refused", "stranger", "weak", "unidentified"])
    func repeatedInVain(_ fault: String) async throws {
        let broker = try TestBroker(script: .init(onlyRefreshToken: "rt-only"))
        let session = try await broker.signIn()
        broker.signsIn(fault == "weak" ? "pwd" : "mfa")
        broker.provider.script.withLock { script in
            switch fault {
            case "refused": script.refusal = "of no use"
            case "stranger": script.subject = "user-2"
            case "unidentified": script.identify = [.identityRejected(detail: "")]
            default: break
            }
        }
        #expect(await problem { try await broker.stepUp(session) } != nil)
        #expect(try await broker.store.outboxCount() == 0)
        #expect(try await broker.row(of: session).endedAt == nil)
    }

    // MARK: Tokens that arrive long before they are stored

    @Test(
        "A step-up's tokens are stored 12 s after their arrival → they age from their arrival, and an expired token is replaced",
        arguments: [true, false])
    func issuedAt(hasGrant: Bool) async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: .seconds(10)))
        let session = try await broker.signIn()
        broker.signsIn("mfa")
        broker.provider.script.withLock { $0.refreshToken = hasGrant }
        broker.provider.identifying.close()
        let arrived = broker.clock.now
        async let answer = problem { try await broker.stepUp(session) }
        try await eventually("the tokens have arrived") { broker.provider.identifying.waiting == 1 }
        for _ in 0..<3 { broker.clock.advance(.seconds(4)) }
        broker.provider.identifying.open()
        _ = await answer
        try await eventually("the step-up is stored") {
            try StoredTokens.open(try await broker.row(of: session), broker.context).tokens.accessToken.reveal()
                == "at-2"
        }
        let stored = try StoredTokens.open(try await broker.row(of: session), broker.context)
        #expect(stored.issuedAt == arrived)
        broker.provider.script.withLock { $0.refreshToken = true }
        let live = try await broker.useCases.resumeSession.resume(session.token)
        #expect(try await broker.useCases.refreshTokens.accessToken(for: live).token.reveal() == "at-r1")
    }

    // MARK: A sign-in that lends its access token

    @Test(
        "A refresh replaces a step-up's access token, and an upstream demands the `acr` again → `step_up_required`")
    func lent() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.signsIn("mfa")
        broker.provider.script.withLock { $0.refreshToken = false }
        _ = try await broker.stepUp(session)
        broker.provider.script.withLock { $0.refreshToken = true }
        let (check, tokens) = (broker.useCases.signInCheck, broker.useCases.refreshTokens)
        func challenged(_ target: TokenTarget? = nil) async throws -> BrokerProblem? {
            let live = try await broker.useCases.resumeSession.resume(session.token)
            return await problem {
                try await check.judge(challenge: .mfa, of: live, target: target, isLast: true)
            }
        }
        // The upstream refused the access token of the step-up's own sign-in. So another sign-in would be useless.
        let own = try await challenged()
        #expect(own?.code == .stepUpFailed && own?.shortfall?.isUpstreams == true)
        _ = try await tokens.refreshNow(try await broker.useCases.resumeSession.resume(session.token))
        let refreshed = try await challenged()
        #expect(refreshed?.code == .stepUpRequired && refreshed?.wanted?.demand == .mfa)
        #expect(try await challenged(TokenTarget(grant: .exchange, audience: "x"))?.code == .stepUpRequired)
        // The session's refresh token belongs to the earlier sign-in. So an access token that a refresh brings never belongs to
        // the new sign-in.
        #expect(try await challenged(TokenTarget(audience: "a"))?.code == .stepUpFailed)
        // A second sign-in brings an access token of its own, which is used again. A sign-in with a refresh token of its own
        // ends this state.
        broker.provider.script.withLock { $0.refreshToken = false }
        _ = try await broker.stepUp(session, code: "code-3")
        #expect(try await challenged()?.code == .stepUpFailed)
        broker.provider.script.withLock { $0.refreshToken = true }
        _ = try await broker.stepUp(session, code: "code-4")
        broker.clock.advance(.seconds(60))
        _ = try await tokens.refreshNow(try await broker.useCases.resumeSession.resume(session.token))
        #expect(try await challenged()?.code == .stepUpFailed)
    }

    @Test("A session's facts have the version of a step-up's access token → an older release can read them (SEC-130)")
    func releaseBefore() async throws {
        let broker = try TestBroker()
        var facts = try SessionFacts.open(try await broker.row(of: try await broker.signIn()), broker.vault)
        #expect(try SessionFacts(record: facts.record).lentVersion == nil)
        facts.lentVersion = 7
        let read = try SessionFacts(record: facts.record)
        #expect(read.lentVersion == 7 && read.signIn.contextClass == nil && read.subject == facts.subject)
        facts.signIn = SignInFacts(contextClass: "mfa", methods: ["otp"])
        #expect(try SessionFacts(record: facts.record).signIn.methods == ["otp"])
    }

    // MARK: Keys that this process lacks

    /// Makes two replicas.
    ///
    /// The second replica's key ring has a newer key.
    private func unequalRings() throws -> (older: TestBroker, newer: TestBroker, ring: KeyRing) {
        let ring = try KeyRing.generate(now: WallTime(seconds: 1_795_000_000), random: SystemRandom.bytes)
        let later = try ring.rotated(now: WallTime(seconds: 1_795_000_000), random: SystemRandom.bytes)
        let older = try TestBroker(vault: try OpenSSLVault(ring: ring))
        let newer = try TestBroker(
            store: older.store, vault: try OpenSSLVault(ring: later), provider: older.provider, clock: older.clock)
        return (older, newer, later)
    }

    @Test("A process lacks the newer key of a session's row → a step-up gets 503, and its code can be sent again")
    func sealedBefore() async throws {
        let (older, newer, ring) = try unequalRings()
        let session = try await older.signIn()
        older.signsIn("mfa")
        let login = try await older.startStepUp(session)
        _ = try await newer.useCases.refreshTokens.refreshNow(
            try await newer.useCases.resumeSession.resume(session.token))
        var input = ForwardCodeInput()
        input.callbackURL = older.callback(login, code: "code-2")
        input.loginToken = login.loginToken
        input.presentedSession = session.token
        let refusal = await problem { [input] in try await older.useCases.forwardCode.forward(input) }
        #expect(refusal?.code == .storeUnavailable && refusal?.retryAfter != nil && refusal?.retry == nil)
        #expect(older.provider.grants == 1)
        try older.vault.replace(ring: ring)
        guard case .steppedUp(let stepped) = try await older.useCases.forwardCode.forward(input) else {
            Issue.record("the forward did not step the session up")
            return
        }
        #expect(stepped.session.signIn.contextClass == "mfa" && older.provider.grants == 2)
    }

    @Test(
        "Another replica seals a session with a newer key during a step-up → the sign-in is stored once this process has the key"
    )
    func sealedMeanwhile() async throws {
        let (older, newer, ring) = try unequalRings()
        let session = try await older.signIn()
        older.signsIn("mfa")
        older.provider.redeeming.close()
        async let answer = problem { try await older.stepUp(session) }
        try await eventually("the step-up's code is at the provider") { older.provider.redeeming.waiting == 1 }
        _ = try await newer.useCases.refreshTokens.refreshNow(
            try await newer.useCases.resumeSession.resume(session.token))
        older.provider.redeeming.open()
        let asked = older.clock.asked.count
        try await eventually("the process waits to store the step-up's answer") { older.clock.asked.count > asked + 3 }
        older.clock.advance(.seconds(6))
        let early = await answer
        #expect(early?.code == .storeUnavailable && early?.retry == nil)
        try older.vault.replace(ring: ring)
        try await eventually("the sign-in is stored") {
            let row = try await older.store.session(handle: session.session.handle)
            return row.flatMap { try? SessionFacts.open($0, older.vault) }?.signIn.contextClass == "mfa"
        }
        #expect(older.provider.grants == 2)
    }

    @Test(
        "A newer key has sealed a session's facts → a process without this key still stores a refreshed pair at once",
        arguments: [true, false])
    func factsOfANewerKey(hasIDToken: Bool) async throws {
        let (older, newer, ring) = try unequalRings()
        let session = try await older.signIn()
        if hasIDToken { older.provider.script.withLock { $0.refreshedSubject = .subject("user-1") } }
        let live = try await older.useCases.resumeSession.resume(session.token)
        let before = try await older.row(of: session)
        let facts = try SessionFacts.open(before, newer.vault)
        let sealed = try newer.vault.seal(facts.record, as: .session, row: before.tokenDigest)
        #expect(sealed.keyID != older.vault.currentKeyID)
        _ = try await older.store.commitRefresh(
            RefreshCommit(
                tokenDigest: before.tokenDigest, tokenVersion: 1, tokens: try #require(before.tokens), facts: sealed,
                formerFacts: before.facts, tokenExpiresAt: before.tokenExpiresAt, refreshable: true, expiresAt: nil))
        older.clock.advance(.seconds(3601))
        let refusal = await problem { try await older.useCases.refreshTokens.accessToken(for: live) }
        let after = try await older.row(of: session)
        #expect(after.tokenVersion == 3 && after.facts == sealed)
        // The tokens are withheld until a process can compare their subject with the session's subject.
        #expect(refusal?.code == (hasIDToken ? .providerUnavailable : nil))
        #expect(after.subjectUnchecked == hasIDToken)
        try older.vault.replace(ring: ring)
        _ = try await older.useCases.refreshTokens.accessToken(
            for: try await older.useCases.resumeSession.resume(session.token))
        #expect(older.provider.refreshes == 1)
    }

    @Test("A step-up returns another refresh token → treated as another grant, and the former grant is revoked")
    func otherRefreshToken() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.signsIn("mfa")
        _ = try await broker.stepUp(session)
        #expect(try await broker.store.outboxCount() == 1)
        #expect(try await broker.row(of: session).tokenVersion == 2)
    }

    @Test(
        "A step-up has another `sid` → stored with a new grant; if the refresh token is kept, the old `sid` is kept, too",
        arguments: [true, false])
    func sid(isGrantKept: Bool) async throws {
        let broker = try TestBroker(script: .init(sid: "sid-1", onlyRefreshToken: isGrantKept ? "rt-only" : nil))
        let session = try await broker.signIn()
        let before = try #require(try await broker.row(of: session).sid)
        broker.signsIn("mfa")
        broker.provider.script.withLock { $0.sid = "sid-2" }
        _ = try await broker.stepUp(session)
        let after = try #require(try await broker.row(of: session).sid)
        #expect((after == before) == isGrantKept)
    }

    @Test("The store is slow to commit a step-up → the sign-in's age is judged at the time of the provider's answer")
    func judgedOnce() async throws {
        let clock = TestClock()
        let store = SlowStepUps(InMemoryStore(monotonic: clock.clock.monotonic), clock)
        let broker = try TestBroker(store: store, clock: clock)
        let session = try await broker.signIn()
        broker.signsIn("mfa", secondsAgo: 10)
        let stepped = try await broker.stepUp(session, StepUpDemand(maximumAge: 300))
        #expect(stepped.session.signIn.contextClass == "mfa")
        #expect(store.asked == 2)
    }

    @Test("A step-up's exchange brings no tokens → `provider_error`", arguments: [true, false])
    func withoutTokens(hasSession: Bool) async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let client = try #require(broker.provider.profile.clients.first)
        let identity = ProviderIdentity(subject: "user-1", claims: [], sid: nil)
        var plan = ExchangePlan(
            key: broker.vault.digest(Secret("other")), proof: nil, gate: .none, provider: broker.provider,
            client: client, call: .idToken(identity), device: nil, presentedSession: nil, loginToken: nil,
            charge: .nobody, binding: .none)
        plan.stepUp = LoginStepUp(
            demand: .mfa, session: hasSession ? broker.vault.digest(session.token) : nil)
        plan.stepUpToken = session.token
        let refusal = await problem { [plan] in try await ExchangeRunner(context: broker.context).run(plan) }
        #expect(refusal?.code == .providerError)
    }

    // MARK: The login

    @Test(
        "A step-up starts → it requests the granted scopes if all of them are configured, otherwise the configured scopes",
        arguments: [
            (["https://as.example/scopes/email"], ["openid", "email"]),
            (["openid", "email.read"], ["openid", "email"]), (["openid"], ["openid"]),
            (["email"], ["openid", "email"]),
        ])
    func scope(granted: [String], asked: [String]) async throws {
        let broker = try TestBroker(script: .init(scope: granted))
        let session = try await broker.signIn()
        _ = try await broker.startStepUp(session)
        #expect(broker.provider.script.withLock { $0.requests.last?.scope } == asked)
    }

    @Test(
        "The granted scope lacks `offline_access` → a step-up requests it if the session has a refresh token",
        arguments: [true, false])
    func offlineAccess(isRefreshable: Bool) async throws {
        let client = ClientProfile(
            name: ClientName(unchecked: "ios"), redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 },
            scope: ["openid", "email", "phone", "offline_access"])
        let broker = try TestBroker(
            clients: [client], script: .init(scope: ["openid", "email"], refreshToken: isRefreshable))
        _ = try await broker.startStepUp(try await broker.signIn())
        let asked = ["openid", "email"] + (isRefreshable ? ["offline_access"] : [])
        #expect(broker.provider.script.withLock { $0.requests.last?.scope } == asked)
    }

    @Test(
        "The answer to a first sign-in with a demand is lost → the login that replaces this sign-in makes the same demand"
    )
    func demandedAnew() async throws {
        let broker = try TestBroker()
        var input = StartLoginInput(provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"))
        input.demand = .mfa
        let login = try await broker.useCases.startLogin.start(input)
        broker.provider.script.withLock { $0.redeem = [.lost(detail: "")] }
        _ = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        let again = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        #expect(again?.code == .loginRequired)
        let last = try #require(broker.provider.script.withLock { $0.requests.last })
        #expect(last.demanded.map(\.name) == StepUpDemand.mfa.parameters.map(\.name))
        // The second sign-in is judged on its own: it is too weak.
        let next = try #require(again?.login)
        let refusal = await problem {
            try await broker.forward(broker.callback(next, code: "c9"), next.loginToken)
        }
        #expect(refusal?.code == .stepUpFailed)
    }

    @Test(
        "App and configuration both demand something of a first sign-in → both are requested; a contradiction → `step_up_failed`"
    )
    func joined() async throws {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 })
        client.configuredSignIn = StepUpDemand(contextClasses: ["pwd", "mfa"], maximumAge: 3600)
        let broker = try TestBroker(clients: [client])
        func asked(_ demand: StepUpDemand) async throws -> [String] {
            var input = StartLoginInput(provider: ProviderName(unchecked: "as"))
            input.demand = demand
            _ = try await broker.useCases.startLogin.start(input)
            let request = try #require(broker.provider.script.withLock { $0.requests.last })
            return request.demanded.map { "\($0.name)=\($0.value)" }
        }
        let refusal = await problem { try await asked(StepUpDemand(contextClasses: ["phr"])) }
        #expect(refusal?.code == .stepUpFailed)
        #expect(refusal?.shortfall?.required == StepUpDemand(contextClasses: ["phr"]))
        #expect(broker.provider.script.withLock { $0.requests.isEmpty })
        let tighter = StepUpDemand(contextClasses: ["phr", "mfa"], maximumAge: 60)
        #expect(try await asked(tighter) == ["max_age=60", "acr_values=mfa"])
        #expect(try await asked(StepUpDemand(maximumAge: 7200)) == ["max_age=3600", "acr_values=pwd mfa"])
        #expect(try await asked(.mfa) == ["max_age=3600", "acr_values=mfa"])
    }

    // MARK: A call's demands

    @Test(
        "The clock is in doubt → a demand for an age gets 503, and a demand for an `acr` is still judged",
        arguments: [3600, -3600]
    )
    func doubted(seconds: Int) async throws {
        let broker = try TestBroker()
        broker.signsIn("mfa", secondsAgo: seconds < 0 ? 3600 : 0)
        let live = try await broker.useCases.resumeSession.resume(broker.signIn().token)
        let check = broker.useCases.signInCheck
        broker.clock.jump(.seconds(seconds))
        let refusal = await problem { try await check.require(StepUpDemand(maximumAge: 300), of: live) }
        #expect(refusal?.code == .storeUnavailable && refusal?.retryAfter != nil)
        // A demand for an `acr` can be judged even if the time is unknown.
        #expect(await problem { try await check.require(.mfa, of: live) } == nil)
    }

    @Test(
        "Another replica stepped a session up → before this replica refuses a call, it reads the new sign-in; the call continues"
    )
    func judgedElsewhere() async throws {
        let clock = TestClock()
        let store = InMemoryStore(monotonic: clock.clock.monotonic)
        let broker = try TestBroker(store: store, script: .init(onlyRefreshToken: "rt-only"), clock: clock)
        let other = try TestBroker(store: store, vault: broker.vault, provider: broker.provider, clock: clock)
        broker.signsIn("pwd")
        let session = try await broker.signIn()
        let stale = try await broker.useCases.resumeSession.resume(session.token)
        let (check, tokens) = (broker.useCases.signInCheck, broker.useCases.refreshTokens)
        #expect(try await tokens.accessToken(for: stale).token.reveal() == "at-1")
        broker.signsIn("mfa")
        _ = try await other.stepUp(session)
        let judged = try await check.require(.mfa, of: stale)
        #expect(judged.facts.signIn.contextClass == "mfa")
        #expect(try await tokens.accessToken(for: judged).token.reveal() == "at-2")
        let challenged = try await check.judge(challenge: .mfa, of: stale, target: nil, isLast: false)
        #expect(try await tokens.accessToken(for: challenged).token.reveal() == "at-2")
        let last = await problem { try await check.judge(challenge: .mfa, of: stale, target: nil, isLast: true) }
        #expect(last?.code == .stepUpFailed && last?.shortfall?.isUpstreams == true)
        #expect(broker.provider.refreshes == 0)
    }

    @Test("A call is refused with `step_up_required`, and the store has nothing newer → the cached session stays")
    func cached() async throws {
        let broker = try TestBroker()
        broker.signsIn("pwd")
        let live = try await broker.useCases.resumeSession.resume(broker.signIn().token)
        let (cache, moment) = (broker.context.cache, broker.clock.monotonic)
        let before = cache.lookUp(live.tokenDigest, at: moment)
        #expect(before.session === live)
        for _ in 0..<3 {
            let refusal = await problem { try await broker.useCases.signInCheck.require(.mfa, of: live) }
            #expect(refusal?.code == .stepUpRequired)
        }
        let after = cache.lookUp(live.tokenDigest, at: moment)
        #expect(after.session === live && after.generation == before.generation)
    }
}

/// A store whose first commit of a step-up takes 400 s, and then fails because another write was faster.
private final class SlowStepUps: AroundStore {
    let base: any BrokerStore
    private let clock: TestClock
    private let count = Mutex(0)

    var asked: Int { count.withLock { $0 } }

    init(_ base: any BrokerStore, _ clock: TestClock) {
        self.base = base
        self.clock = clock
    }

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        try await work(base)
    }

    func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        let number = count.withLock { count in
            count += 1
            return count
        }
        guard number == 1 else { return try await base.completeStepUp(commit) }
        clock.advance(.seconds(400))
        return .moved
    }
}
