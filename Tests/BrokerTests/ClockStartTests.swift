import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// A process that starts while the machine's wall clock is wrong.
///
/// The sessions must survive, and the process must store only right times.
@Suite(.timeLimit(.minutes(2))) struct ClockStartTests {
    private static let day = Duration.seconds(86_400)

    /// A broker with one session, whose idle time is half a day.
    ///
    /// The broker's store has recorded the present time.
    private func first(
        _ lifetimes: SessionLifetimes = SessionLifetimes(idle: .seconds(43_200)),
        script: ScriptedProvider.Script = .init(tokenLifetime: nil)
    ) async throws -> (broker: TestBroker, session: SignedIn) {
        let client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid", "email"], nonce: true,
            lifetimes: lifetimes)
        let broker = try TestBroker(clients: [client], script: script)
        #expect(try await Sweeper.checkClock(broker.context) == .believed)
        return (broker, try await broker.signIn())
    }

    /// Starts another broker process on the same store.
    ///
    /// The new process's clock is ahead by `ahead`.
    private func restarted(_ broker: TestBroker, ahead: Duration) throws -> TestBroker {
        let clock = TestClock(ahead: ahead)
        return try TestBroker(
            store: broker.store, vault: broker.vault,
            provider: ScriptedProvider(
                profile: broker.provider.profile, clock: clock, script: broker.provider.script.withLock { $0 }),
            clock: clock)
    }

    private func answer(_ broker: TestBroker, _ session: SignedIn) async -> BrokerProblem? {
        await problem { try await broker.useCases.resumeSession.use(session.token) }
    }

    private func seen(_ broker: TestBroker) async throws -> WallTime? { try await broker.store.lease("clock") }

    @Test(
        "A process starts two or six days after the mark → it buries sessions only after it has run for a day without a restart",
        .timeLimit(.minutes(1)), arguments: [2, 6])
    func ahead(days: Int) async throws {
        let (broker, session) = try await first()
        let mark = try await seen(broker)
        for _ in 0..<2 {
            let wrong = try restarted(broker, ahead: Self.day * days)
            #expect(try await Sweeper.checkClock(wrong.context) == .uncertain)
            #expect(await answer(wrong, session)?.reason == .idleExpired)
            let sweeper = Sweeper(wrong.context, owner: "one")
            for hours in [0, 1, 22] {
                wrong.clock.advance(.seconds(hours * 3600))
                _ = try await sweeper.sweep()
            }
            try await sweeper.stop()
            #expect(try await broker.store.session(handle: session.session.handle)?.endedAt == nil)
            #expect(try await broker.store.outboxCount() == 0)
            #expect(try await seen(broker) == mark)
        }
        #expect(await answer(broker, session) == nil)
        // If the broker was really off for these days, it buries lapsed sessions a day after its start.
        let away = try restarted(broker, ahead: Self.day * days)
        _ = try await Sweeper.checkClock(away.context)
        away.clock.advance(Self.day)
        _ = try await Sweeper(away.context, owner: "one").sweep()
        #expect(try await broker.store.session(handle: session.session.handle)?.endReason == .idleExpired)
        #expect(try await seen(broker) == away.clock.now)
    }

    @Test(
        "A process starts less than a day after the mark → the clock is trusted, and sessions may be buried at once",
        .timeLimit(.minutes(1)))
    func hours() async throws {
        let (broker, _) = try await first()
        let next = try restarted(broker, ahead: .seconds(86_000))
        #expect(try await Sweeper.checkClock(next.context) == .believed)
        #expect(next.context.watch.allows(.bury, next.clock.clock))
    }

    @Test(
        "A process starts with a clock before the mark → no sign-ins, and no session is shortened, until the clock is corrected",
        .timeLimit(.minutes(1)))
    func behind() async throws {
        let (broker, session) = try await first(
            SessionLifetimes(), script: .init(tokenLifetime: .seconds(3600), refreshTokenLifetime: Self.day * 30))
        let end = try await broker.store.session(handle: session.session.handle)?.expiresAt
        let mark = try await seen(broker)
        let wrong = try restarted(broker, ahead: Self.day * -45)
        #expect(try await Sweeper.checkClock(wrong.context) == .behind)
        let live = try await wrong.useCases.resumeSession.resume(session.token)
        _ = try await wrong.useCases.refreshTokens.refreshNow(live)
        #expect(wrong.provider.refreshes == 1)
        #expect(try await broker.store.session(handle: session.session.handle)?.expiresAt == end)
        wrong.clock.advance(.seconds(7200))
        let grants = wrong.provider.grants
        let refused = await problem { try await wrong.signIn(code: "late") }
        #expect(refused?.code == .storeUnavailable && refused?.retryAfter != nil)
        #expect(wrong.provider.grants == grants, "the code is not sent to the provider")
        _ = try await Sweeper(wrong.context, owner: "one").sweep()
        #expect(try await seen(broker) == mark)
        // As soon as the clock is set right, it is trusted, because it then shows the expected time.
        wrong.clock.jump(Self.day * 45)
        #expect(await answer(wrong, session) == nil)
        _ = try await wrong.signIn(code: "later")
        #expect(wrong.context.watch.allows(.concludeLapse, wrong.clock.clock))
    }

    @Test(
        "A process starts with a clock behind the mark; the clock is set 3 days past it → lapses concluded; 8 days → in doubt",
        .timeLimit(.minutes(1)))
    func caughtUp() async throws {
        let (broker, _) = try await first()
        for (days, isBelieved, isCertain) in [(3, true, false), (8, false, false)] {
            let wrong = try restarted(broker, ahead: Self.day * -45)
            #expect(try await Sweeper.checkClock(wrong.context) == .behind)
            wrong.clock.jump(Self.day * (45 + days))
            #expect(wrong.context.watch.allows(.concludeLapse, wrong.clock.clock) == isBelieved)
            #expect(wrong.context.watch.allows(.bury, wrong.clock.clock) == isCertain)
        }
    }

    @Test(
        "An operator confirms the clock → it is trusted, even if it shows 45 days before or 91 days after the stored mark",
        .timeLimit(.minutes(1)))
    func trusted() async throws {
        let (broker, _) = try await first()
        for days in [-45, 91] {
            let next = try restarted(broker, ahead: Self.day * days)
            #expect(try await Sweeper.checkClock(next.context, isTrusted: true) == .believed)
            #expect(try await seen(broker) == next.clock.now)
            _ = try await next.signIn(code: "code\(days)")
        }
    }

    @Test(
        "A trusted clock is beyond the mark for ten minutes → the mark moves; a clock is just behind the mark → the mark stays",
        .timeLimit(.minutes(1)))
    func seenMoves() async throws {
        let (broker, _) = try await first()
        let mark = try #require(try await seen(broker))
        let next = try restarted(broker, ahead: .seconds(7200))
        #expect(try await Sweeper.checkClock(next.context) == .believed)
        let sweeper = Sweeper(next.context, owner: "one")
        next.clock.advance(.seconds(599))
        _ = try await sweeper.sweep()
        #expect(try await seen(broker) == mark)
        // Ten minutes after the start, the broker trusts the clock, so the sweep moves the store's mark.
        next.clock.advance(.seconds(1))
        _ = try await sweeper.sweep()
        #expect(try await seen(broker) == next.clock.now)
        let high = next.clock.now
        try await sweeper.stop()
        let late = try restarted(broker, ahead: .seconds(7200 - 50))
        #expect(try await Sweeper.checkClock(late.context) == .behind)
        // If the clock is less than a minute behind the store's mark at the start, it is trusted.
        let slightly = try restarted(broker, ahead: .seconds(7200 - 50))
        slightly.clock.advance(.seconds(600))
        #expect(try await Sweeper.checkClock(slightly.context) == .believed)
        _ = try await Sweeper(slightly.context, owner: "one").sweep()
        #expect(try await seen(broker) == high)
    }

    @Test(
        "The clock is in doubt → a forward of a new code gets 503 and leaves the code unspent; a used code gets its old answer",
        .timeLimit(.minutes(1)))
    func jumped() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        let url = broker.callback(login, code: "first")
        let made = try await broker.forward(url, login.loginToken)
        let next = try await broker.start(loginToken: login.loginToken)
        broker.clock.jump(.seconds(120))
        let refused = await problem { try await broker.forward(broker.callback(next, code: "next"), next.loginToken) }
        #expect(refused?.code == .storeUnavailable && refused?.retryAfter != nil && refused?.retry == nil)
        #expect(broker.provider.grants == 1)
        #expect(try await broker.forward(url, login.loginToken).session.handle == made.session.handle)
        broker.clock.advance(.seconds(300))
        #expect(await problem { try await broker.forward(broker.callback(next, code: "next"), next.loginToken) } != nil)
        #expect(broker.provider.grants == 1)
        // The clock now shows the time that the two jumps together leave unchanged. So sessions may begin again, but lapses are
        // judged only later.
        broker.clock.jump(.seconds(-120))
        #expect(broker.context.watch.allows(.begin, broker.clock.clock))
        #expect(!broker.context.watch.allows(.concludeLapse, broker.clock.clock))
        _ = try await broker.signIn(code: "anew")
        // If the clock shows any other time, it stays in doubt for ten minutes.
        broker.clock.jump(.seconds(-120))
        #expect(!broker.context.watch.allows(.begin, broker.clock.clock))
        broker.clock.advance(.seconds(599))
        #expect(!broker.context.watch.allows(.begin, broker.clock.clock))
        broker.clock.advance(.seconds(1))
        _ = try await broker.signIn(code: "last")
    }

    @Test(
        "A replica's own clock jumps 30 days → the replica dates a new session by the store's clock",
        .timeLimit(.minutes(1)))
    func replica() async throws {
        let broker = try TestBroker(correctsClock: true)
        try await ClockComparison(broker.context, TestSharedStore()).look()
        let now = broker.clock.now
        broker.clock.jump(Self.day * 30)
        let session = try await broker.signIn()
        #expect(session.session.createdAt == now)
    }
}
