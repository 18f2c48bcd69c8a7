import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Claims whose owner is silent, and the time when another process takes such a claim over (guarantees 2 and 3).
@Suite(.timeLimit(.minutes(2))) struct LapsedClaimTests {
    private static let refused = ProviderFailure.rejected(OAuthError(status: 400, code: "invalid_grant"))

    /// A broker whose store uses the test's clock, with a session whose access token has expired.
    private func expired(
        _ script: ScriptedProvider.Script = .init()
    ) async throws -> (broker: TestBroker, store: InMemoryStore, live: LiveSession) {
        let clock = TestClock()
        let store = InMemoryStore(monotonic: clock.clock.monotonic)
        let broker = try TestBroker(store: store, script: script, clock: clock)
        let session = try await broker.signIn()
        clock.advance(.seconds(3601))
        return (broker, store, try await broker.useCases.resumeSession.resume(session.token))
    }

    private func ask(_ broker: TestBroker, _ live: LiveSession) async -> BrokerProblem? {
        await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
    }

    /// Claims a session's refresh for another process, which then dies.
    private func claimAndDie(_ broker: TestBroker, _ live: LiveSession, version: Int64 = 1) async throws {
        let claim = RefreshClaim(
            tokenDigest: live.tokenDigest, tokenVersion: version, name: ClaimID(random: try broker.vault.random(16)),
            lifetime: .seconds(25), now: broker.clock.now)
        guard case .claimed = try await broker.store.claimRefresh(claim) else { throw BrokerProblem(.internalError) }
    }

    /// The number of callers that have waited for a claim of another process.
    private func waits(_ broker: TestBroker) -> Int {
        broker.events.all.filter { if case .refreshWaited = $0 { true } else { false } }.count
    }

    // MARK: Times when the store counts as calm

    @Test("A process starts, or its store fails → the store counts as calm after fifteen seconds without a failure")
    func calm() {
        let watch = StoreWatch(startedAt: .seconds(100))
        #expect(!watch.isCalm(at: .seconds(114)))
        #expect(watch.isCalm(at: .seconds(115)))
        watch.failed(at: .seconds(120))
        #expect(!watch.isCalm(at: .seconds(134)))
        #expect(watch.isCalm(at: .seconds(135)))
    }

    @Test(
        "The store was away or silent → it counts as calm fifteen seconds after its return, but never while it is silent"
    )
    func calmWhereAsked() {
        let watch = StoreWatch(startedAt: .zero)
        for second in stride(from: 1, through: 21, by: 2) { watch.answered(at: .seconds(second)) }
        #expect(!watch.isCalm(at: .seconds(15)))
        #expect(watch.isCalm(at: .seconds(16)))
        // The store failed at 30 s, and answered again at 50 s. The fifteen calm seconds count from this answer.
        watch.failed(at: .seconds(30))
        #expect(!watch.isCalm(at: .seconds(46)))
        watch.answered(at: .seconds(50))
        #expect(!watch.isCalm(at: .seconds(60)))
        watch.answered(at: .seconds(60))
        #expect(!watch.isCalm(at: .seconds(64)))
        #expect(watch.isCalm(at: .seconds(65)))
        // The store has been silent for a long time, although no request failed.
        #expect(!watch.isCalm(at: .seconds(71)))
        watch.answered(at: .seconds(71))
        #expect(!watch.isCalm(at: .seconds(80)))
    }

    @Test("A replica has no requests while the store is away → its regular comparison of clocks notices the outage")
    func idleReplica() async throws {
        let broker = try TestBroker()
        let store = TestSharedStore(clock: broker.clock)
        let comparison = ClockComparison(broker.context, store)
        func ask(for seconds: Int) async {
            for _ in 0..<(seconds / 2) {
                broker.clock.advance(.seconds(2))
                try? await comparison.look()
            }
        }
        func isCalm() -> Bool { broker.context.memory.store.isCalm(at: broker.clock.clock.monotonic()) }
        await ask(for: 20)
        #expect(isCalm())
        store.isAway.withLock { $0 = true }
        await ask(for: 40)
        #expect(!isCalm())
        store.isAway.withLock { $0 = false }
        await ask(for: 14)
        #expect(!isCalm())
        await ask(for: 4)
        #expect(isCalm())
    }

    // MARK: The claim's owner

    @Test(
        "A replica cannot store refreshed tokens for 80 s → other callers wait; the tokens are stored later, with no new refresh"
    )
    func cutOff() async throws {
        let (one, store, live) = try await expired()
        let two = try TestBroker(store: store, vault: one.vault, provider: one.provider, clock: one.clock)
        // The first replica can neither renew its claim nor commit the tokens. The second replica's store works.
        store.fail(.commitRefresh, Array(repeating: .refused, count: 1_000_000))
        store.fail(.renewRefresh, Array(repeating: .refused, count: 1_000_000))
        #expect(await ask(one, live)?.code == .storeUnavailable)
        #expect(one.provider.refreshes == 1)
        for _ in 0..<4 {
            one.clock.advance(.seconds(10))
            let asked = waits(two)
            async let answer = ask(two, live)
            try await eventually("the other replica waits") { waits(two) > asked }
            // The caller has waited for the longest time that a caller waits, so it is answered.
            one.clock.advance(.seconds(10))
            #expect(await answer?.code == .providerUnavailable)
        }
        #expect(one.provider.refreshes == 1)
        store.fail(.commitRefresh, [])
        try await eventually("the new tokens are stored") {
            try await store.session(tokenDigest: live.tokenDigest)?.tokenVersion == 2
        }
        let row = try #require(try await store.session(tokenDigest: live.tokenDigest))
        #expect(try StoredTokens.open(row, one.context).tokens.accessToken.reveal() == "at-r1")
    }

    @Test(
        "The store cannot take a refreshed pair until its access token has expired → no caller gets this access token",
        arguments: [nil, TokenTarget(audience: "a")])
    func expiresInHand(_ target: TokenTarget?) async throws {
        let (one, store, live) = try await expired(.init(tokenLifetime: .seconds(10)))
        let two = try TestBroker(store: store, vault: one.vault, provider: one.provider, clock: one.clock)
        @Sendable func give(_ broker: TestBroker, forced: Bool = false) async -> String {
            do {
                if let target {
                    return try await broker.useCases.fetchTargetToken.accessToken(for: live, at: target).token.reveal()
                }
                if forced {
                    let view = try await broker.useCases.refreshTokens.refreshNow(live)
                    return view.tokensExpireAt.map { $0 > broker.clock.now } ?? false ? "fresh" : "expired"
                }
                return try await broker.useCases.refreshTokens.accessToken(for: live).token.reveal()
            } catch { return "\(error.code)" }
        }
        store.fail(.commitRefresh, Array(repeating: .refused, count: 1_000_000))
        #expect(await give(one) == "storeUnavailable")
        async let own = give(one)
        async let forced = give(two, forced: true)
        async let expiring = give(two)
        try await eventually("callers wait on both replicas") { waits(one) > 0 && waits(two) > 1 }
        one.clock.advance(.seconds(11))
        store.fail(.commitRefresh, [])
        let expected: Set = ["storeUnavailable", "providerUnavailable", target == nil ? "at-r2" : "a-2", "fresh"]
        let given = await [own, forced, expiring]
        #expect(given.allSatisfy(expected.contains), "\(given)")
        #expect(one.provider.refreshes <= 2)
        // The broker still has a token pair that it could not store. It stores this pair before it claims again, and answers
        // 503 until then.
        try await eventually("a caller gets the next token") { await give(one) == (target == nil ? "at-r2" : "a-2") }
        #expect(one.provider.refreshes == 2)
    }

    @Test("The owner of a refresh's claim has died → a minute after the claim has lapsed, another caller takes it over")
    func dead() async throws {
        let (broker, _, live) = try await expired()
        try await claimAndDie(broker, live)
        broker.clock.advance(.seconds(84))
        async let answer = ask(broker, live)
        try await eventually("a caller waits for the claim") { waits(broker) > 0 }
        #expect(broker.provider.refreshes == 0)
        broker.clock.advance(.seconds(1))
        #expect(await answer == nil)
        #expect(broker.provider.refreshes == 1)
    }

    @Test(
        "A process's store call has failed → it takes over a refresh claim only after the store has been calm for fifteen seconds"
    )
    func afterAFailure() async throws {
        let (broker, store, live) = try await expired()
        try await claimAndDie(broker, live)
        broker.clock.advance(.seconds(86))
        store.fail(.claimRefresh, [.refused])
        #expect(await ask(broker, live)?.code == .storeUnavailable)
        broker.clock.advance(.seconds(10))
        async let answer = ask(broker, live)
        try await eventually("a caller waits for the claim") { waits(broker) > 0 }
        #expect(broker.provider.refreshes == 0)
        broker.clock.advance(.seconds(5))
        #expect(await answer == nil)
        #expect(broker.provider.refreshes == 1)
    }

    @Test(
        "A refresh token may have been sent twice, and then the next refresh is refused → the session ends with `refresh_lost`"
    )
    func versionBefore() async throws {
        let (broker, _, live) = try await expired()
        try await claimAndDie(broker, live)
        broker.clock.advance(.seconds(86))
        #expect(await ask(broker, live) == nil)
        broker.clock.advance(.seconds(3601))
        broker.provider.script.withLock { $0.refresh = [Self.refused] }
        let again = LiveSession(
            row: try #require(try await broker.store.session(tokenDigest: live.tokenDigest)), facts: live.facts,
            binding: nil)
        #expect(await ask(broker, again)?.reason == .refreshLost)
    }

    // MARK: While its owner lives

    @Test("The provider is slow to answer a refresh → the refresh's claim is renewed", .timeLimit(.minutes(1)))
    func renewed() async throws {
        let (broker, store, live) = try await expired()
        broker.provider.gate.close()
        async let answer = ask(broker, live)
        try await eventually("a refresh is at the provider") { broker.provider.gate.waiting > 0 }
        broker.clock.advance(.seconds(9))
        try await eventually("the claim is renewed") {
            try await store.refreshState(live.tokenDigest)?.claimFor == .seconds(25)
        }
        broker.provider.gate.open()
        #expect(await answer == nil)
    }

    @Test(
        "A refresh's answer is lost, and the refresh's claim cannot be renewed → the refresh is not sent a second time")
    func notConfirmed() async throws {
        let (broker, store, live) = try await expired(.init(refresh: [.lost(detail: "")]))
        store.fail(.renewRefresh, Array(repeating: .refused, count: 1_000_000))
        #expect(await ask(broker, live)?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == 1)
    }

    @Test(
        "A refresh is refused, but the store cannot end the session → 503; the claim is released, so the next refresh can end it"
    )
    func notCondemned() async throws {
        let (broker, store, live) = try await expired(.init(refresh: [Self.refused, Self.refused]))
        store.fail(.condemnRefresh, [.refused])
        #expect(await ask(broker, live)?.code == .storeUnavailable)
        broker.clock.advance(.seconds(3))
        #expect(await ask(broker, live)?.reason == .grantRevoked)
        #expect(broker.provider.refreshes == 2)
    }
}
