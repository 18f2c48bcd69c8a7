import BrokerTestSupport
import Testing

@testable import Broker

/// Uses of sessions while the clock is in doubt.
///
/// The broker keeps them in memory, and writes them to the store after the doubt (guarantee 3).
@Suite(.timeLimit(.minutes(2))) struct KeptUsesTests {
    private static let day = Duration.seconds(86_400)

    private func broker(
        idle: Int = 300, absolute: Int = 86_400, store: (any BrokerStore)? = nil, like: TestBroker? = nil,
        clock: TestClock = TestClock()
    ) throws -> TestBroker {
        let client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid", "email"], nonce: true,
            lifetimes: SessionLifetimes(idle: .seconds(idle), absolute: .seconds(absolute)))
        return try TestBroker(
            store: store, vault: like?.vault, clients: [client], script: .init(tokenLifetime: nil), clock: clock)
    }

    private func use(_ broker: TestBroker, _ session: SignedIn) async -> BrokerProblem? {
        await problem { try await broker.useCases.resumeSession.use(session.token) }
    }

    private func row(_ broker: TestBroker, _ session: SignedIn) async throws -> SessionRow {
        try #require(try await broker.store.session(handle: session.session.handle))
    }

    @Test(
        "A session lapses, and then the clock is set back → uses during the doubt about the clock do not revive the session"
    )
    func overBefore() async throws {
        let broker = try broker()
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(310))
        _ = broker.context.may(.begin)
        broker.clock.jump(.seconds(-120))
        // On the wrong clock, the session is still alive.
        #expect(await use(broker, session) == nil)
        let before = try await row(broker, session)
        broker.clock.advance(.seconds(600))
        try await broker.context.writeKeptUses()
        await broker.settled()
        #expect(try await row(broker, session).lastUsedAt == before.lastUsedAt)
        #expect(await use(broker, session)?.reason == .idleExpired)
    }

    @Test(
        "A session lapses, the clock is set back, and the session is used → it is lapsed again as soon as the clock is trusted"
    )
    func overOnceRight() async throws {
        let broker = try broker(idle: 3600)
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3700))
        _ = broker.context.may(.begin)
        broker.clock.jump(.seconds(-600))
        #expect(await use(broker, session) == nil)
        broker.clock.jump(.seconds(600))
        #expect(await use(broker, session)?.code == .storeUnavailable)
        broker.clock.advance(.seconds(601))
        #expect(await use(broker, session)?.reason == .idleExpired)
    }

    @Test("A session was used and then ended during the doubt about the clock → its uses in memory have no effect")
    func ended() async throws {
        let broker = try broker()
        let session = try await broker.signIn()
        broker.clock.jump(.seconds(70))
        broker.clock.advance(.seconds(100))
        #expect(await use(broker, session) == nil)
        try await broker.useCases.endSession.logOut(session.token)
        broker.clock.advance(.seconds(600))
        let before = try await row(broker, session)
        try await broker.context.writeKeptUses()
        #expect(try await row(broker, session) == before)
        #expect(await use(broker, session)?.reason == .loggedOut)
    }

    @Test("A session is used during the doubt about the clock → its idle end never exceeds its absolute end")
    func absoluteEnd() async throws {
        let broker = try broker(idle: 300, absolute: 900)
        let session = try await broker.signIn()
        let created = broker.clock.now
        broker.clock.jump(.seconds(70))
        for _ in 0..<8 {
            broker.clock.advance(.seconds(90))
            #expect(await use(broker, session) == nil)
        }
        try await broker.context.writeKeptUses()
        #expect(try await row(broker, session).idleExpiresAt <= created.advanced(by: .seconds(900)))
        broker.clock.advance(.seconds(120))
        #expect(await use(broker, session)?.code == .sessionEnded)
    }

    @Test(
        "The clock steps, and a session is used every 20 s → each use is served, during the doubt about the clock and after it",
        arguments: [70, 200, -70, -3600])
    func step(seconds: Int) async throws {
        let broker = try broker()
        let (session, unused) = (try await broker.signIn(code: "c1"), try await broker.signIn(code: "c2"))
        broker.clock.advance(.seconds(20))
        #expect(await use(broker, session) == nil)
        await broker.settled()
        broker.clock.jump(.seconds(seconds))
        for turn in 0..<60 {
            broker.clock.advance(.seconds(20))
            #expect(await use(broker, session) == nil, "\(turn * 20) s after the step")
            await broker.settled()
        }
        // After the doubt, the use in memory is written to the store. The unused session has ended.
        try await broker.context.writeKeptUses()
        #expect(broker.clock.now.since(try await row(broker, session).lastUsedAt) <= .seconds(3))
        if seconds > 0 { #expect(await use(broker, unused)?.reason == .idleExpired) }
        // If the clock was set back by an hour and stays so, the times in the session's row are in the future. The session then
        // lapses later.
        guard seconds > -3600 else { return }
        broker.clock.advance(.seconds(301))
        #expect(await use(broker, session)?.reason == .idleExpired)
    }

    @Test(
        "A process stops while the clock is in doubt → it stores session uses, dated at most 2 min later than without the jump",
        arguments: [(70, 270), (170, 320), (-70, 200)])
    func stop(seconds: Int, written: Int) async throws {
        let broker = try broker()
        let session = try await broker.signIn()
        let signedIn = broker.clock.now
        _ = broker.context.may(.begin)
        broker.clock.jump(.seconds(seconds))
        broker.clock.advance(.seconds(50))
        #expect(await use(broker, session) == nil)
        broker.clock.advance(.seconds(80))
        #expect(await use(broker, session) == nil)
        broker.clock.advance(.seconds(70))
        #expect(!broker.context.may(.concludeLapse))
        #expect(await use(broker, session) == nil)
        try await Sweeper(broker.context, owner: "one").stop()
        #expect(try await row(broker, session).lastUsedAt == signedIn.advanced(by: .seconds(written)))
        let next = try self.broker(store: broker.store, like: broker, clock: TestClock(ahead: .seconds(450)))
        #expect(await use(next, session) == nil)
    }

    @Test("The doubt about the clock ends → the next check of the clock stores the session uses that are in memory")
    func watch() async throws {
        let rig = try ClockRig()
        let session = try await rig.broker.signIn()
        rig.broker.clock.jump(.seconds(70))
        try await rig.run(100)
        #expect(await use(rig.broker, session) == nil)
        let used = rig.broker.clock.now
        try await rig.run(400)
        #expect(try await row(rig.broker, session).lastUsedAt < used)
        try await rig.run(200)
        #expect(rig.may(.concludeLapse))
        #expect(try await row(rig.broker, session).lastUsedAt == used)
    }

    @Test(
        "The doubt about the clock has ended, with session uses in memory → the sweeper stores them before it buries sessions"
    )
    func sweep() async throws {
        let broker = try broker(idle: 3 * 86_400, absolute: 30 * 86_400)
        let (session, unused) = (try await broker.signIn(code: "c1"), try await broker.signIn(code: "c2"))
        broker.clock.advance(.seconds(3 * 86_400 - 1000))
        _ = broker.context.may(.begin)
        broker.clock.jump(.seconds(70))
        _ = broker.context.may(.begin)
        #expect(await use(broker, session) == nil)
        broker.clock.advance(Self.day * 2 + .seconds(2000))
        #expect(broker.context.may(.bury))
        _ = try await Sweeper(broker.context, owner: "one").sweep()
        #expect(try await row(broker, unused).endedAt != nil)
        #expect(try await row(broker, session).endedAt == nil)
        #expect(await use(broker, session) == nil)
    }

    @Test("A process is killed during the doubt about the clock → only the session uses of this doubt are lost")
    func kill() async throws {
        let broker = try broker()
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(100))
        #expect(await use(broker, session) == nil)
        await broker.settled()
        broker.clock.jump(.seconds(70))
        broker.clock.advance(.seconds(100))
        #expect(await use(broker, session) == nil)
        let next = try self.broker(store: broker.store, like: broker, clock: TestClock(ahead: .seconds(399)))
        #expect(await use(next, session) == nil)
    }

    @Test(
        "The store fails while the session uses of a doubt are written → the uses stay in memory and are written the next time"
    )
    func storeFails() async throws {
        let broker = try broker()
        let session = try await broker.signIn()
        broker.clock.jump(.seconds(70))
        broker.clock.advance(.seconds(250 - 70))
        #expect(await use(broker, session) == nil)
        broker.clock.advance(.seconds(290))
        #expect(await use(broker, session) == nil)
        broker.clock.advance(.seconds(280))
        let store = try #require(broker.store as? InMemoryStore)
        store.refuse(after: 0)
        await #expect(throws: StoreFailure.self) { try await broker.context.writeKeptUses() }
        store.refuse(after: nil)
        try await broker.context.writeKeptUses()
        #expect(try await row(broker, session).lastUsedAt == broker.clock.now.advanced(by: .seconds(-280)))
    }

    @Test(
        "During a doubt about the clock, more sessions are used than the memory holds → only the first sessions' uses are held"
    )
    func bound() throws {
        let uses = KeptUses(maximum: 2)
        let digests = try (0..<3).map { try #require(Digest(Array(repeating: UInt8($0), count: 32))) }
        let use = KeptUses.Use(
            moment: .zero, createdAt: TestClock.start, lifetimes: SessionLifetimes(), aliveAt: TestClock.start)
        for digest in digests { uses.keep(digest, at: .zero) { use } }
        #expect(uses.count == 2 && uses[digests[2]] == nil)
    }

    @Test(
        "A call reads a living session, which then lapses → the late slide by this call does not revive the session in the cache"
    )
    func lateSlide() async throws {
        let broker = try broker(idle: 20)
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        broker.clock.advance(.seconds(19))
        _ = try await broker.useCases.resumeSession.resume(session.token)
        broker.clock.advance(.seconds(2))
        broker.useCases.resumeSession.slide(live)
        #expect(await use(broker, session)?.reason == .idleExpired)
    }
}
