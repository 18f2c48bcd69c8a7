import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// If the wall clock is wrong for a while, the sessions survive (guarantee 3, SEC-128).
@Suite(.timeLimit(.minutes(2))) struct ClockTests {
    private static let quarter = Duration.seconds(91 * 86_400)

    private func signedIn() async throws -> (broker: TestBroker, session: SignedIn, sweeper: Sweeper) {
        let broker = try TestBroker(script: .init(tokenLifetime: nil))
        let sweeper = Sweeper(broker.context, owner: "one")
        return (broker, try await broker.signIn(), sweeper)
    }

    private func answer(_ broker: TestBroker, _ session: SignedIn) async -> BrokerProblem? {
        await problem { try await broker.useCases.resumeSession.use(session.token) }
    }

    @Test(
        "The clock is 91 days ahead for a while → calls get 503 until its correction, and every session survives",
        .timeLimit(.minutes(1))
    )
    func ahead() async throws {
        let (broker, session, sweeper) = try await signedIn()
        broker.clock.jump(Self.quarter)
        for _ in 0..<3 {
            let problem = await answer(broker, session)
            #expect(problem?.code == .storeUnavailable && problem?.retryAfter != nil)
            _ = try await sweeper.sweep()
        }
        broker.clock.jump(.zero - Self.quarter)
        _ = try await sweeper.sweep()
        await broker.settled()
        #expect(await answer(broker, session) == nil)
        #expect(try await broker.store.outboxCount() == 0)
        #expect(try await broker.store.session(handle: session.session.handle)?.endedAt == nil)
    }

    @Test(
        "The clock has jumped → refreshes and revocations wait until ten minutes after the clock's correction",
        .timeLimit(.minutes(1)))
    func nothingBegins() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: .seconds(60)))
        let session = try await broker.signIn(code: "c1")
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let other = try await broker.signIn(code: "c2")
        try await broker.useCases.endSession.logOut(other.token)
        broker.clock.jump(Self.quarter)
        let problem = await problem { try await broker.useCases.refreshTokens.refreshNow(live) }
        #expect(problem?.code == .storeUnavailable && problem?.retryAfter != nil)
        #expect(try await Revocations(broker.context).work() == 0)
        #expect(broker.provider.refreshes == 0 && broker.provider.script.withLock { $0.revoked } == 0)
        broker.clock.jump(.zero - Self.quarter)
        #expect(try await Revocations(broker.context).work() == 0)
        broker.clock.advance(.seconds(600))
        #expect(try await Revocations(broker.context).work() == 1)
        _ = try await broker.useCases.refreshTokens.refreshNow(live)
        #expect(broker.provider.refreshes == 1)
    }

    @Test(
        "The clock jumps while a revocation is sent → the next attempt is postponed by at most its usual pause",
        .timeLimit(.minutes(1)))
    func jumpAmidARevocation() async throws {
        let failure = ProviderFailure.retryable(status: 503, retryAfter: nil, detail: "")
        let broker = try TestBroker(script: .init(revoke: [failure], hangs: ["at-1"]))
        try await broker.useCases.endSession.logOut(broker.signIn().token)
        broker.provider.hanging.close()
        let revocations = Revocations(broker.context)
        async let worked = revocations.work()
        try await eventually("a revocation hangs at the provider") { broker.provider.hanging.waiting >= 1 }
        broker.clock.jump(.seconds(7000))
        broker.provider.hanging.open()
        #expect(try await worked == 1)
        broker.clock.jump(.seconds(-7000))
        broker.clock.advance(.seconds(660))
        #expect(try await revocations.work() == 1)
        #expect(broker.provider.script.withLock { $0.revoked } == 2)
    }

    @Test(
        "The clock is 91 days ahead for ten minutes → sessions are refused as lapsed, and live again when the clock is right",
        .timeLimit(.minutes(1)))
    func believed() async throws {
        let (broker, session, sweeper) = try await signedIn()
        broker.clock.jump(Self.quarter)
        #expect(await answer(broker, session)?.code == .storeUnavailable)
        broker.clock.advance(.seconds(599))
        #expect(await answer(broker, session)?.code == .storeUnavailable)
        broker.clock.advance(.seconds(1))
        #expect(await answer(broker, session)?.reason == .idleExpired)
        // On the wrong clock, the session ended 61 days ago. But the broker decided this only now, so it waits a day until it
        // makes the tombstone.
        _ = try await sweeper.sweep()
        await broker.settled()
        broker.clock.jump(.zero - Self.quarter)
        broker.clock.advance(.seconds(600))
        #expect(await answer(broker, session) == nil)
    }

    @Test("The clock makes thirty steps of just under a minute → it stays trusted", .timeLimit(.minutes(1)))
    func smallSteps() async throws {
        let (broker, session, _) = try await signedIn()
        for _ in 0..<30 {
            broker.clock.jump(.seconds(59))
            _ = broker.context.watch.allows(.concludeLapse, broker.clock.clock)
        }
        broker.clock.advance(.seconds(31 * 86_400))
        #expect(await answer(broker, session)?.reason == .idleExpired)
    }

    @Test(
        "A process starts more than a week after the mark → no session counts as lapsed for an hour",
        .timeLimit(.minutes(1))
    )
    func start() async throws {
        let (broker, session, _) = try await signedIn()
        #expect(try await Sweeper.checkClock(broker.context) == .believed)
        broker.clock.advance(.seconds(31 * 86_400))
        let next = try TestBroker(store: broker.store, vault: broker.vault)
        next.clock.advance(.seconds(31 * 86_400))
        #expect(try await Sweeper.checkClock(next.context) == .doubted)
        #expect(await answer(next, session)?.code == .storeUnavailable)
        _ = try await Sweeper(next.context, owner: "two").sweep()
        next.clock.advance(.seconds(3600))
        #expect(await answer(next, session)?.reason == .idleExpired)

        let back = try TestBroker(store: broker.store, vault: broker.vault)
        back.clock.advance(Self.quarter)
        #expect(try await Sweeper.checkClock(back.context) == .doubted)
        back.clock.jump(.zero - Self.quarter)
        #expect(!back.context.watch.allows(.concludeLapse, back.clock.clock))
        back.clock.advance(.seconds(600))
        #expect(back.context.watch.allows(.concludeLapse, back.clock.clock))

        let soon = try TestBroker(store: InMemoryStore(), vault: broker.vault)
        #expect(try await Sweeper.checkClock(soon.context) == .believed)
    }
}
