import BrokerTestSupport
import BrokerVault
import Dispatch
import Synchronization
import Testing

@testable import Broker

/// Faults that appear only between two steps, although each step alone is correct.
@Suite("Faults between two steps", .timeLimit(.minutes(2))) struct SeamTests {
    private func broker(
        _ store: InMemoryStore, own: ProviderProfile.Ownership = .subject, script: ScriptedProvider.Script = .init()
    ) throws -> TestBroker {
        let profile = ProviderProfile(
            name: ProviderName(unchecked: "as"), kind: .oidc, displayName: "AS", issuer: "https://as.example",
            callbackIssuer: "https://as.example", own: own,
            clients: [
                ClientProfile(
                    name: ClientName(unchecked: "ios"),
                    redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid"])
            ])
        return try TestBroker(
            store: store, provider: ScriptedProvider(profile: profile, clock: TestClock(), script: script))
    }

    @Test(
        "Each refresh brings a new refresh token with a limited life → the session lives until the newest of them ends (SEC-40)"
    )
    func firstRefreshToken() async throws {
        let broker = try TestBroker(script: .init(refreshTokenLifetime: .seconds(1800)))
        let session = try await broker.signIn()
        #expect(session.session.idleExpiresAt == session.session.expiresAt)
        // The cookie is set only once, so it has to last until the latest end that the session can have.
        #expect(session.endsAtLatest.since(session.session.createdAt) == .seconds(90 * 86_400))
        for _ in 0..<4 {
            broker.clock.advance(.seconds(1000))
            let live = try await broker.useCases.resumeSession.use(session.token)
            let view = try await broker.useCases.refreshTokens.refreshNow(live)
            #expect(view.expiresAt == broker.clock.now.advanced(by: .seconds(1800)))
            #expect(view.idleExpiresAt == view.expiresAt)
        }
        broker.clock.advance(.seconds(1800))
        #expect(await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason == .expired)
    }

    @Test(
        "The store fails while a user's sessions are counted → the broker counts again, because the code is already spent"
    )
    func countedAgain() async throws {
        let store = InMemoryStore()
        let broker = try broker(store, own: .device)
        store.fail(.sessions, [.refused, .refused, .refused])
        let signedIn = try await broker.signIn()
        _ = try await broker.useCases.resumeSession.resume(signedIn.token)
        #expect(broker.provider.grants == 1)
        #expect(store.failures(.sessions) == 0)
    }

    @Test(
        "The store's answer to an exchange's claim is lost → the broker asks the store until it knows whether the claim exists"
    )
    func doubtedClaim() async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        let login = try await broker.start()
        store.fail(.claimExchange, [.lost, .refused, .refused, .lost])
        _ = try await broker.forward(broker.callback(login), login.loginToken)
        #expect(broker.provider.grants == 1)
    }

    @Test(
        "A forward ends before it knows whether its exchange was claimed → the claim is released; a later forward gets a session",
        .timeLimit(.minutes(1)))
    func claimOfNobody() async throws {
        let clock = TestClock()
        let store = InMemoryStore(monotonic: clock.clock.monotonic)
        let broker = try TestBroker(store: store, clock: clock)
        let login = try await broker.start()
        let url = broker.callback(login)
        store.fail(.claimExchange, [.lost] + Array(repeating: .refused, count: 1_000_000))
        async let first = problem { try await broker.forward(url, login.loginToken) }
        try await eventually("the broker has tried the claim ten times") { store.failures(.claimExchange) <= 999_990 }
        clock.advance(broker.context.settings.waiterPatience)
        #expect(await first?.code == .storeUnavailable)
        // The claim was made, but the store's answer about it was lost. The row stays until the process releases the claim.
        let key = broker.vault.index(.code, ["as", "code-1"])
        #expect(try await broker.store.exchange(key)?.outcome == .calling)
        store.fail(.claimExchange, [])
        try await eventually("the exchange has an outcome") {
            try await broker.store.exchange(key)?.outcome != .calling
        }
        clock.advance(.seconds(60))
        _ = try await broker.forward(url, login.loginToken)
        #expect(broker.provider.grants == 1)
    }

    @Test(
        "The answer to a refresh's claim is lost, and retries fail → the claim is released, so the next refresh need not wait",
        .timeLimit(.minutes(1)))
    func refreshClaimOfNobody() async throws {
        let clock = TestClock()
        let store = InMemoryStore(monotonic: clock.clock.monotonic)
        let broker = try TestBroker(store: store, clock: clock)
        let live = try await broker.useCases.resumeSession.resume(try await broker.signIn().token)
        store.fail(.claimRefresh, [.lost, .refused, .refused])
        #expect(
            await problem { try await broker.useCases.refreshTokens.refreshNow(live) }?.code == .storeUnavailable)
        try await eventually("the broker has repeated the claim") { store.failures(.claimRefresh) == 0 }
        try await eventually("the claim is released") {
            try await broker.store.refreshState(live.tokenDigest)?.claimFor ?? .zero == .zero
        }
        _ = try await broker.useCases.refreshTokens.refreshNow(live)
        #expect(broker.provider.refreshes == 1)
    }

    @Test("The answer to a refresh's claim is lost → the broker asks once more, and the refresh succeeds")
    func refreshClaimAskedAgain() async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        let live = try await broker.useCases.resumeSession.resume(try await broker.signIn().token)
        store.fail(.claimRefresh, [.lost])
        #expect(await problem { try await broker.useCases.refreshTokens.refreshNow(live) } == nil)
        #expect(broker.provider.refreshes == 1)
    }

    @Test(
        "The store refuses a refreshed pair → other refreshes wait a second; it then refuses a claim, too → one more second"
    )
    func heldRow() async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        let cases = broker.useCases
        let held = try await cases.resumeSession.resume(try await broker.signIn(code: "c1").token)
        let other = try await cases.resumeSession.resume(try await broker.signIn(code: "c2").token)
        store.fail(.commitRefresh, Array(repeating: .refused, count: 1_000_000))
        #expect(await problem { try await cases.refreshTokens.refreshNow(held) }?.code == .storeUnavailable)
        // If the last commit failed, a refresh has to wait, because the store may still be failing.
        #expect(await problem { try await cases.refreshTokens.refreshNow(other) }?.code == .storeUnavailable)
        #expect(broker.provider.refreshes == 1)
        broker.clock.advance(.seconds(1))
        store.fail(.claimRefresh, [.refused])
        #expect(await problem { try await cases.refreshTokens.refreshNow(other) }?.code == .storeUnavailable)
        #expect(await problem { try await cases.refreshTokens.refreshNow(other) }?.code == .storeUnavailable)
        #expect(store.failures(.claimRefresh) == 0 && broker.provider.refreshes == 1)
        // The store now accepts claims again. It only refuses the commit of one row.
        broker.clock.advance(.seconds(1))
        _ = await problem { try await cases.refreshTokens.refreshNow(other) }
        #expect(broker.provider.refreshes == 2)
        store.fail(.commitRefresh, [])
        for live in [held, other] {
            try await eventually("the new tokens are stored") {
                try await broker.store.session(tokenDigest: live.tokenDigest)?.tokenVersion != 1
            }
        }
    }

    @Test(
        "The store refuses a refreshed pair → the process stops making claims before it answers the waiting callers"
    )
    func noted() async throws {
        let store = InMemoryStore()
        // The event handler delays the write for a moment. So the test would notice if the broker answered too early.
        let answered = DispatchSemaphore(value: 0)
        let broker = try TestBroker(store: store) { event in
            if case .storeFailed = event { _ = answered.wait(timeout: .now() + .milliseconds(50)) }
        }
        let live = try await broker.useCases.resumeSession.resume(try await broker.signIn().token)
        store.fail(.commitRefresh, Array(repeating: .refused, count: 1_000_000))
        #expect(
            await problem { try await broker.useCases.refreshTokens.refreshNow(live) }?.code == .storeUnavailable)
        let failures = broker.events.all.filter { if case .storeFailed = $0 { true } else { false } }
        for _ in 0..<1_000 { answered.signal() }
        #expect(!failures.isEmpty && !broker.context.memory.store.mayClaim(at: broker.clock.monotonic))
        store.fail(.commitRefresh, [])
        try await eventually("the new tokens are stored") {
            try await broker.store.session(tokenDigest: live.tokenDigest)?.tokenVersion != 1
        }
    }

    @Test(
        "A replica with a fast clock has used a Zephr callback → a replica with a slow clock refuses this callback as used"
    )
    func fastClock() async throws {
        let registrar = ScriptedRegistrar()
        // The callback's key changes with each period. On the slow clock, the next period begins in ten seconds. On the fast
        // clock, it began twenty seconds ago.
        let slow = try TestBroker(also: [registrar], clock: TestClock(ahead: .seconds(-10)))
        let fast = try TestBroker(
            store: slow.store, vault: slow.vault, also: [registrar], clock: TestClock(ahead: .seconds(20)))
        var input = ForwardCodeInput()
        input.provider = registrar.profile.name
        input.client = ClientName(unchecked: "ios")
        input.callbackURL = "\(ScriptedRegistrar.redirect)?status=success&session_id=s1"
        _ = try await fast.forward(input)
        #expect(await problem { try await slow.forward(input) }?.code == .codeAlreadyUsed)
    }
}
