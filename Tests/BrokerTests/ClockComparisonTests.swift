import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// A replica whose wall clock differs from the database's clock.
///
/// The replica must not end a session because of its wrong clock, and must store only the database's times (guarantee 3).
@Suite(.timeLimit(.minutes(2))) struct ClockComparisonTests {
    private static let quarter = Duration.seconds(91 * 86_400)

    /// Two replicas on one store.
    ///
    /// The clock of the first replica is right, and a user has signed in there. The clock of the second replica is wrong since
    /// its start.
    private func replicas(
        _ ahead: Duration, script: ScriptedProvider.Script = .init(tokenLifetime: nil)
    ) async throws -> (right: TestBroker, wrong: TestBroker, session: SignedIn) {
        let right = try TestBroker(script: script)
        let session = try await right.signIn()
        let wrong = try TestBroker(
            store: right.store, vault: right.vault, provider: right.provider, clock: TestClock(ahead: ahead),
            correctsClock: true)
        return (right, wrong, session)
    }

    private func answer(_ broker: TestBroker, _ session: SignedIn) async -> BrokerProblem? {
        await problem { try await broker.useCases.resumeSession.use(session.token) }
    }

    @Test(
        "A replica's clock is 91 days ahead at its start → 503 until it is compared with the store's clock; the session survives",
        .timeLimit(.minutes(1)))
    func wrongStart() async throws {
        let (right, wrong, session) = try await replicas(Self.quarter)
        // Before the first comparison, the replica cannot know that its clock is wrong. So the replica answers 503 instead of
        // ending the session, which seems to have lapsed.
        #expect(await answer(wrong, session)?.code == .storeUnavailable)
        try await ClockComparison(wrong.context, TestSharedStore(clock: right.clock)).look()
        #expect(wrong.context.watch.ahead == Self.quarter)
        #expect(wrong.context.clock.now() == right.clock.now)
        #expect(await answer(wrong, session) == nil)
        #expect(!wrong.context.watch.allows(.concludeLapse, wrong.context.clock))
        #expect(try await Sweeper(wrong.context, owner: "wrong").sweep() == nil)
        #expect(try await right.store.lease("sweeper") == nil)
        #expect(try await right.store.session(handle: session.session.handle)?.endedAt == nil)
    }

    @Test(
        "A session lapses, and a replica's clock is two hours ahead → this replica answers 503 until its clock is corrected",
        .timeLimit(.minutes(1)))
    func lapses() async throws {
        let (right, wrong, session) = try await replicas(.seconds(7200))
        let comparison = ClockComparison(wrong.context, TestSharedStore(clock: right.clock))
        try await comparison.look()
        for broker in [right, wrong] { broker.clock.advance(.seconds(31 * 86_400)) }
        let problem = await answer(wrong, session)
        #expect(problem?.code == .storeUnavailable && problem?.retryAfter != nil)
        #expect(await answer(right, session)?.reason == .idleExpired)
        wrong.clock.jump(.seconds(-7200))
        try await comparison.look()
        wrong.clock.advance(.seconds(600))
        #expect(wrong.context.watch.ahead == .zero)
        #expect(await answer(wrong, session)?.reason == .idleExpired)
    }

    @Test(
        "A replica's clock jumps → the replica goes on with the store's time, even before the next comparison of both clocks",
        .timeLimit(.minutes(1)))
    func jump() async throws {
        let (right, wrong, _) = try await replicas(.zero)
        let context = wrong.context
        let comparison = ClockComparison(context, TestSharedStore(clock: right.clock))
        try await comparison.look()
        for step in [Duration.seconds(7200), .seconds(-600), .zero - Self.quarter] {
            wrong.clock.jump(step)
            #expect(context.clock.now() == right.clock.now)
            #expect(context.watch.isOff(context.clock))
            wrong.clock.jump(.zero - step)
            #expect(context.clock.now() == right.clock.now)
            #expect(!context.watch.isOff(context.clock))
        }
        // If the machine's clock differs by less than a minute, the clock stays trusted. The broker's time still comes from the
        // store.
        wrong.clock.jump(.seconds(45))
        try await comparison.look()
        #expect(context.watch.ahead == .seconds(45) && !context.watch.isOff(context.clock))
        #expect(context.clock.now() == right.clock.now)
    }

    @Test("The store's own clock is 91 days ahead → 503, and no session ends", .timeLimit(.minutes(1)))
    func wrongStore() async throws {
        let (right, other, session) = try await replicas(.zero)
        try await ClockComparison(other.context, TestSharedStore(clock: right.clock, ahead: Self.quarter)).look()
        let problem = await answer(other, session)
        #expect(problem?.code == .storeUnavailable && problem?.retryAfter != nil)
        #expect(try await right.store.session(handle: session.session.handle)?.endedAt == nil)
    }

    @Test("The store does not answer a comparison of clocks → the clock stays trusted", .timeLimit(.minutes(1)))
    func silence() async throws {
        let broker = try TestBroker()
        let store = TestSharedStore(clock: broker.clock)
        store.isAway.withLock { $0 = true }
        await #expect(throws: StoreFailure.self) { try await ClockComparison(broker.context, store).look() }
        #expect(broker.context.watch.ahead == nil)
        #expect(broker.context.watch.allows(.concludeLapse, broker.context.clock))
    }

    @Test(
        "A session is refreshed while the clock is 30 days behind → its end stays; a refresh by a trusted clock moves the end",
        .timeLimit(.minutes(1))
    )
    func refreshTokenEnd() async throws {
        let broker = try TestBroker(
            script: .init(tokenLifetime: .seconds(3600), refreshTokenLifetime: .seconds(14 * 86_400)))
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        broker.clock.jump(.seconds(-30 * 86_400))
        _ = try await broker.useCases.refreshTokens.refreshNow(live)
        #expect(broker.provider.refreshes == 1)
        let row = try await broker.store.session(handle: session.session.handle)
        #expect(row?.expiresAt == live.row.expiresAt)
        broker.clock.jump(.seconds(30 * 86_400))
        #expect(!broker.context.watch.allows(.concludeLapse, broker.clock.clock))
        broker.clock.advance(.seconds(601))
        #expect(await answer(broker, session) == nil)
        // As soon as the clock is trusted again, a refresh moves the session's end to the end of the refresh token.
        _ = try await broker.useCases.refreshTokens.refreshNow(
            broker.useCases.resumeSession.resume(session.token))
        let end = try await broker.store.session(handle: session.session.handle)?.expiresAt
        #expect(end == broker.clock.now.advanced(by: .seconds(14 * 86_400)))
    }

    @Test(
        "The clock jumps during a sign-in, and the user's identity is rejected → `provider_unavailable`, with retry `new_login`",
        .timeLimit(.minutes(1)))
    func identityByWrongClock() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        broker.provider.script.withLock { $0.identify = [.identityRejected(detail: "expired")] }
        broker.provider.gate.close()
        let url = broker.callback(login)
        let forward = Task { await problem { try await broker.forward(url, login.loginToken) } }
        try await eventually("a call is at the provider") { broker.provider.gate.waiting > 0 }
        broker.clock.jump(Self.quarter)
        broker.provider.gate.open()
        let first = await forward.value
        #expect(first?.code == .providerUnavailable && first?.retry == "new_login")
        #expect(broker.provider.grants == 1)
    }
}
