import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// The tokens for other APIs: their rows, the calls that several callers share, and the events.
@Suite("Uses of tokens for other APIs", .timeLimit(.minutes(1))) struct TargetUseTests {
    private static func target(_ name: String) -> TokenTarget { TokenTarget(audience: name) }
    private static let exchange = TokenTarget(grant: .exchange, audience: "x")

    private func ask(
        _ broker: TestBroker, _ session: SignedIn, _ target: TokenTarget, insteadOf refused: AccessToken? = nil,
        by upstream: String = ""
    ) async throws -> AccessToken {
        try await broker.useCases.fetchTargetToken.accessToken(
            for: try await broker.useCases.resumeSession.resume(session.token), at: target, insteadOf: refused,
            by: upstream)
    }

    private func told(_ broker: TestBroker, _ isWanted: (BrokerEvent) -> Bool) -> Int {
        broker.events.all.count { isWanted($0) }
    }

    // MARK: Rows

    @Test(
        "A session gets a ninth target token → the least recently used one is deleted; a use is written at most once a minute"
    )
    func ninth() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let digest = broker.vault.digest(session.token)
        let store = try #require(broker.store as? InMemoryStore)
        func row(_ name: String) -> TargetTokenRow? {
            let key = Self.target(name).key(of: digest, broker.vault)
            return store.targetTokenRows.first { $0.key == key }
        }
        for number in 1...8 {
            _ = try await ask(broker, session, Self.target("a\(number)"))
            broker.clock.advance(.seconds(1))
        }
        let stored = try #require(row("a1")).usedAt
        broker.clock.advance(.seconds(51))
        _ = try await ask(broker, session, Self.target("a1"))
        await broker.settled()
        #expect(row("a1")?.usedAt == stored)
        broker.clock.advance(.seconds(1))
        _ = try await ask(broker, session, Self.target("a1"))
        try await eventually("the second use of the token is stored", within: .seconds(10)) {
            row("a1")?.usedAt == stored.advanced(by: .seconds(60))
        }
        _ = try await ask(broker, session, Self.target("a9"))
        #expect(store.targetTokenRows.count == 8)
        #expect(row("a1") != nil && row("a2") == nil && row("a9") != nil)
        #expect(broker.provider.refreshes == 9)
    }

    @Test("The store fails while a target's token is fetched → 503 and a `storeFailed` event, without a provider call")
    func storeFails() async throws {
        let clock = TestClock()
        let store = ScriptedStore(InMemoryStore(monotonic: clock.clock.monotonic))
        let broker = try TestBroker(store: store, clock: clock)
        let session = try await broker.signIn()
        // The caller reads the row first. The second read belongs to the refresh, and fails.
        store.fails.withLock { $0 = { $0 == .targetToken && $1 == 2 } }
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .storeUnavailable)
        #expect(
            told(broker) {
                if case .storeFailed(let operation, _) = $0 { "\(operation)" == "audience" } else { false }
            } == 1)
        #expect(broker.provider.refreshes == 0)
    }

    // MARK: Shared calls

    @Test(
        "Two callers want the same target's token at once → one call, one `refreshWaited` event and one `refreshShared` event"
    )
    func shared() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.provider.gate.close()
        async let first = ask(broker, session, Self.target("a"))
        try await eventually("the call is made") { broker.provider.gate.waiting == 1 }
        async let second = ask(broker, session, Self.target("a"))
        func waits() -> Int { told(broker) { if case .refreshWaited = $0 { true } else { false } } }
        let isTold = try await eventually(within: .seconds(10)) { waits() == 1 }
        #expect(isTold)
        broker.provider.gate.open()
        #expect(try await [first.token.reveal(), second.token.reveal()] == ["a-1", "a-1"])
        #expect(broker.provider.refreshes == 1 && waits() == 1)
        #expect(told(broker) { if case .refreshShared = $0 { true } else { false } } == 1)
    }

    @Test(
        "A caller gets its token → the session's flight is over by then, so the caller's next call begins a new flight")
    func isOver() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let digest = broker.vault.digest(session.token)
        let isOver = Task(executorPreference: AtOnce()) {
            _ = try await ask(broker, session, Self.target("a"))
            return broker.context.memory.flights.underWay(digest) == nil
        }
        #expect(try await isOver.value)
    }

    /// An executor that runs a job at once on the thread that enqueues it.
    ///
    /// So a task continues at the same moment when its wait ends.
    private final class AtOnce: TaskExecutor {
        func enqueue(_ job: consuming ExecutorJob) {
            UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
        }
    }

    @Test(
        "A client's refused target is requested again after its pause → other sessions get 502 at once until the answer comes"
    )
    func oneTries() async throws {
        let refusal = ProviderFailure.rejected(OAuthError(status: 400, code: "invalid_target"))
        let broker = try TestBroker(script: .init(targeted: [refusal, nil, nil]))
        let (first, second) = (try await broker.signIn(code: "c1"), try await broker.signIn(code: "c2"))
        let third = try await broker.signIn(code: "c3")
        #expect(await problem { try await ask(broker, first, Self.target("a")) }?.code == .providerError)
        broker.clock.advance(.seconds(5))
        broker.provider.gate.close()
        async let trying = ask(broker, second, Self.target("a"))
        try await eventually("the call for the target is at the provider") { broker.provider.gate.waiting == 1 }
        broker.provider.gate.passNewcomers()
        #expect(await problem { try await ask(broker, third, Self.target("a")) }?.code == .providerError)
        #expect(broker.provider.refreshes == 2)
        broker.provider.gate.open()
        _ = try await trying
        _ = try await ask(broker, third, Self.target("a"))
    }

    // MARK: Exchanges

    @Test(
        "A session has only an access token, in the last minute of its life → it can still be used for a token exchange"
    )
    func lastMinute() async throws {
        let broker = try TestBroker(script: .init(refreshToken: false))
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3590))
        #expect(try await ask(broker, session, Self.exchange).token.reveal() == "exchanged-1")
        #expect(broker.provider.refreshes == 0)
    }

    @Test(
        "An upstream refuses each token from a token exchange → one exchange a minute, then a doubled pause with an event"
    )
    func keepsRefusing() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let first = try await ask(broker, session, Self.exchange)
        let second = try await ask(broker, session, Self.exchange, insteadOf: first, by: "shop")
        let early = await problem { try await ask(broker, session, Self.exchange, insteadOf: second, by: "shop") }
        #expect(early?.code == .notRefreshable)
        func pauses() -> [Duration] {
            broker.events.all.compactMap {
                if case .upstreamKeepsRefusing(_, _, _, "shop", let pause) = $0 { pause } else { nil }
            }
        }
        #expect(pauses().isEmpty)
        broker.clock.advance(broker.context.settings.forcedRefreshPause)
        _ = try await ask(broker, session, Self.exchange, insteadOf: second, by: "shop")
        #expect(pauses() == [broker.context.settings.forcedRefreshPause * 2])
        #expect(broker.provider.script.withLock { $0.exchanges.count } == 3)
    }
}
