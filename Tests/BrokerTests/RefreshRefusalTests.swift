import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// The effect on a session and on its waiting callers if the provider refuses a refresh, or answers with another user's tokens.
@Suite(.timeLimit(.minutes(2))) struct RefreshRefusalTests {
    private static let empty = ProviderFailure.rejected(OAuthError(status: 401, code: ""))
    private static let unavailable = ProviderFailure.retryable(status: 503, retryAfter: nil, detail: "")

    private func expired(
        _ script: ScriptedProvider.Script, after age: Duration = .seconds(3601)
    ) async throws -> (broker: TestBroker, store: InMemoryStore, live: LiveSession) {
        let clock = TestClock()
        let store = InMemoryStore(monotonic: clock.clock.monotonic)
        let broker = try TestBroker(store: store, script: script, clock: clock)
        let session = try await broker.signIn()
        clock.advance(age)
        return (broker, store, try await broker.useCases.resumeSession.resume(session.token))
    }

    private func ask(_ broker: TestBroker, _ live: LiveSession) async -> BrokerProblem? {
        await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
    }

    @Test(
        "A refresh is refused without a body twice in six minutes, or seven times in four minutes → the session stays",
        arguments: [(2, 360), (3, 80), (7, 40)])
    func tooFewOrTooSoon(_ count: Int, _ pause: Int) async throws {
        let (broker, _, live) = try await expired(.init(refresh: Array(repeating: Self.empty, count: count)))
        #expect(await ask(broker, live)?.code == .providerUnavailable)
        broker.clock.advance(.seconds(1))
        // At the same time, the endpoint grants tokens to other sessions, so the endpoint works.
        _ = try await broker.signIn(code: "elsewhere")
        for _ in 1..<count {
            broker.clock.advance(.seconds(pause))
            #expect(await ask(broker, live)?.code == .providerUnavailable)
        }
        #expect(broker.provider.refreshes == count)
        broker.clock.advance(.seconds(31))
        #expect(await ask(broker, live) == nil)
    }

    @Test(
        "A refresh is refused without a body → for half a minute, its session's callers get 503 without a provider call"
    )
    func pauseAfterEmpty() async throws {
        let (broker, _, live) = try await expired(.init(refresh: [Self.empty]))
        #expect(await ask(broker, live)?.code == .providerUnavailable)
        broker.clock.advance(.seconds(29))
        #expect(await ask(broker, live)?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == 1)
        broker.clock.advance(.seconds(1))
        #expect(await ask(broker, live) == nil)
    }

    @Test("A refresh brings an identity of another issuer → the session ends with `subject_changed` (SEC-59)")
    func foreign() async throws {
        let (broker, _, live) = try await expired(.init(refreshedSubject: .foreign("https://elsewhere.example")))
        #expect(await ask(broker, live)?.reason == .subjectChanged)
        #expect(try await broker.store.session(tokenDigest: live.tokenDigest)?.endReason == .subjectChanged)
    }

    @Test("A refresh's answer lacks a scope of the session → the session loses this scope for every caller (SEC-57)")
    func shrunkScope() async throws {
        let (broker, _, live) = try await expired(
            .init(scope: ["openid", "email", "orders"], refreshedScope: ["openid", "email"]))
        #expect(live.view.scope == ["openid", "email", "orders"])
        #expect(await ask(broker, live) == nil)
        let row = try #require(try await broker.store.session(tokenDigest: live.tokenDigest))
        let facts = try SessionFacts(record: broker.vault.open(row.facts, as: .session, row: row.tokenDigest))
        #expect(facts.scope == ["openid", "email"])
    }

    @Test(
        "The provider asked another replica to wait → this replica remembers the pause, and refuses without a store call"
    )
    func heldBackElsewhere() async throws {
        let (one, store, live) = try await expired(
            .init(refresh: [.retryable(status: 429, retryAfter: .seconds(60), detail: "")]))
        let two = try TestBroker(store: store, vault: one.vault, provider: one.provider, clock: one.clock)
        #expect(await ask(one, live)?.code == .providerUnavailable)
        #expect(await ask(two, live)?.code == .providerUnavailable)
        store.fail(.claimRefresh, [.refused])
        #expect(await ask(two, live)?.code == .providerUnavailable)
        #expect(store.failures(.claimRefresh) == 1)
        #expect(one.provider.refreshes == 1)
    }

    @Test(
        "A caller waits too long for another caller's refresh → 503, and the refresh goes on",
        .timeLimit(.minutes(1)))
    func patience() async throws {
        let (broker, _, live) = try await expired(.init())
        broker.provider.gate.close()
        async let first = ask(broker, live)
        try await eventually("a refresh is at the provider") { broker.provider.gate.waiting > 0 }
        async let second = ask(broker, live)
        func joined() -> Bool { broker.events.all.contains { if case .refreshWaited = $0 { true } else { false } } }
        try await eventually("the second caller waits for the first") { joined() }
        // The first caller waits for the provider call that it made itself. The second caller stops waiting within eleven
        // seconds.
        broker.clock.advance(.seconds(11))
        #expect(await second?.code == .providerUnavailable)
        broker.provider.gate.open()
        #expect(await first == nil)
    }

    @Test(
        "An upstream refuses a token, and the forced refresh joins a refresh that fails → 503, and never the refused token"
    )
    func joinedInVain() async throws {
        let (broker, _, live) = try await expired(.init(refresh: [Self.unavailable]), after: .seconds(3560))
        broker.provider.gate.close()
        // The access token is still valid. So the caller gets it at once, and the refresh goes on in the background.
        #expect(await ask(broker, live) == nil)
        try await eventually("a refresh is at the provider") { broker.provider.gate.waiting > 0 }
        async let forced = problem {
            let refused = try StoredTokens.open(live.row, broker.context).access(version: live.row.tokenVersion)
            return try await broker.useCases.refreshTokens.accessToken(for: live, insteadOf: refused)
        }
        func joined() -> Bool { broker.events.all.contains { if case .refreshWaited = $0 { true } else { false } } }
        try await eventually("the second caller waits for the first") { joined() }
        broker.provider.gate.open()
        #expect(await forced?.code == .providerUnavailable)
    }

    @Test("An upstream refuses a token while the broker may not call the provider → 503, and never the refused token")
    func heldBackForced() {
        let usable = MachineTable.Event.read(version: 3, live: true, fresh: true, usable: true, refreshable: true)
        MachineTable(need: .forced(fromVersion: 3), goal: OwnToken())
            .check([(usable, .claim(version: 3)), (.heldBack, .finish(.unavailable))])
    }
}
