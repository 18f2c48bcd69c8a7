import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// Evidence that can end a doubt about the clock, and false sources that must not end it (guarantee 3, decision 48).
@Suite(.timeLimit(.minutes(2))) struct ClockEvidenceTests {
    private static let week = Duration.seconds(7 * 86_400)

    /// A process that starts eight days after the last time that its store has recorded (the mark).
    ///
    /// The process's clock is ahead of the true time by `ahead`.
    private func away(ahead: Duration = .zero, bootedAfter: Bool = false) async throws -> (
        rig: ClockRig, truth: TestClock
    ) {
        let first = try TestBroker(script: .init(tokenLifetime: nil))
        _ = try await Sweeper.checkClock(first.context)
        let clock = TestClock(ahead: Self.week + .seconds(86_400) + ahead)
        if !bootedAfter { clock.advanceMonotonic(.seconds(30 * 86_400)) }
        let truth = TestClock(ahead: Self.week + .seconds(86_400))
        let rig = try ClockRig(store: first.store, like: first, clock: clock)
        #expect(try await Sweeper.checkClock(rig.broker.context) == .doubted)
        #expect(!rig.may(.begin) && !rig.may(.concludeLapse) && !rig.may(.bury))
        return (rig, truth)
    }

    private func teller(_ name: String, _ rig: ClockRig, off: Duration = .zero) -> ClockRig.Teller {
        let clock = rig.broker.clock
        return ClockRig.Teller(name, host: "\(name).example") { clock.now.advanced(by: off) }
    }

    // MARK: False sources

    @Test(
        "The kernel's clock is not synchronised, or the kernel refuses the call → the doubt about the clock stays",
        arguments: [false, nil])
    func unsynchronised(says: Bool?) async throws {
        let (rig, _) = try await away(bootedAfter: true)
        rig.kernel.withLock { $0 = says }
        try await rig.run(600)
        #expect(!rig.may(.begin))
    }

    @Test(
        "A machine is restored from a snapshot → its kernel's clock counts as evidence only after a new synchronisation"
    )
    func snapshot() async throws {
        let (rig, _) = try await away()
        rig.kernel.withLock { $0 = true }
        try await rig.run(600)
        #expect(
            !rig.may(.begin), "the kernel synchronised before the snapshot, which proves nothing about the time now")
        rig.kernel.withLock { $0 = false }
        try await rig.run(4)
        rig.kernel.withLock { $0 = true }
        try await rig.run(4)
        #expect(rig.may(.begin))
    }

    @Test("A provider's `Date` is missing, or shows another time than the clock → the doubt about the clock stays")
    func otherTimes() async throws {
        let (rig, truth) = try await away(ahead: .seconds(40 * 86_400))
        rig.tellers.withLock {
            $0 = [
                ClockRig.Teller("right", host: "right.example") { truth.now },
                ClockRig.Teller("cached", host: "cached.example") { nil },
            ]
        }
        try await rig.run(600)
        #expect(!rig.may(.begin))
    }

    @Test(
        "A provider's answer takes more than five seconds → its `Date` does not count, and the doubt about the clock stays"
    )
    func slow() async throws {
        let (rig, _) = try await away()
        let clock = rig.broker.clock
        rig.tellers.withLock {
            $0 = [
                ClockRig.Teller("slow", host: "slow.example", delays: { clock.advance(.milliseconds(5100)) }) {
                    clock.now
                }
            ]
        }
        try await rig.run(120)
        #expect(!rig.may(.begin))
    }

    @Test(
        "Two providers share one host → they count as one witness of the time, and are asked at most every thirty seconds"
    )
    func oneHost() async throws {
        let (rig, _) = try await away()
        let clock = rig.broker.clock
        let tellers = ["a", "b"].map { ClockRig.Teller($0, host: "accounts.example") { clock.now } }
        rig.tellers.withLock { $0 = tellers }
        try await rig.run(600)
        #expect(rig.may(.begin) && !rig.may(.concludeLapse))
        #expect(tellers.reduce(0) { $0 + $1.asked.withLock { $0 } } <= 21)
    }

    @Test(
        "A provider has confirmed the clock, and then stops answering or reports another time → the clock is in doubt again"
    )
    func silent() async throws {
        let (rig, _) = try await away()
        let clock = rig.broker.clock
        let source = SharedOffset()
        rig.tellers.withLock {
            $0 = [
                ClockRig.Teller("p", host: "p.example") {
                    source.offset.withLock { $0 }.map { clock.now.advanced(by: $0) }
                }
            ]
        }
        try await rig.run(60)
        #expect(rig.may(.begin))
        source.offset.withLock { $0 = nil }
        try await rig.run(200)
        #expect(!rig.may(.begin))
        source.offset.withLock { $0 = .zero }
        try await rig.run(60)
        #expect(rig.may(.begin))
        source.offset.withLock { $0 = .seconds(90) }
        try await rig.run(60)
        #expect(!rig.may(.begin))
    }

    private final class SharedOffset: Sendable { let offset = Mutex<Duration?>(.zero) }

    @Test(
        "The database runs on this machine → its clock is no evidence; on another machine → evidence, but too little for lapses"
    )
    func database() async throws {
        let database = TestClock()
        let shared = TestSharedStore(clock: database)
        let rig = try ClockRig(shared: shared)
        rig.broker.clock.jump(.seconds(50))
        try await ClockComparison(rig.broker.context, shared).look()
        rig.broker.clock.jump(.seconds(-600))
        #expect(!rig.may(.concludeLapse))
        // The clock is now 20 s behind the database's clock, which counts as agreement. But it differs by 70 s from the time
        // that its readings before the jump predict, so this prediction contradicts the clock.
        rig.broker.clock.jump(.seconds(530))
        for isOther in [false, true] {
            shared.isOther.withLock { $0 = isOther }
            for _ in 0..<60 {
                database.advance(.seconds(2))
                try await ClockComparison(rig.broker.context, shared).look()
                try await rig.run(2)
            }
            #expect(!rig.may(.concludeLapse), "\(isOther)")
            let context = rig.broker.context
            #expect(context.watch.standing(context.clock).witnesses == (isOther ? [.store] : []))
        }
        #expect(rig.may(.begin))
    }

    @Test(
        "The database's clock is the only evidence for hours → sign-ins are allowed; burials wait for a second source",
        arguments: [(3, 0), (0, 8)])
    func databaseAlone(markAhead: Int, away: Int) async throws {
        let first = try TestBroker(
            script: .init(tokenLifetime: nil), clock: TestClock(ahead: .seconds(86_400 * markAhead)))
        _ = try await Sweeper.checkClock(first.context)
        let database = TestClock(ahead: .seconds(86_400 * away))
        let shared = TestSharedStore(clock: database)
        shared.isOther.withLock { $0 = true }
        let rig = try ClockRig(
            store: first.store, like: first, clock: TestClock(ahead: .seconds(86_400 * away)), shared: shared)
        func run(_ seconds: Int) async throws {
            for _ in 0..<(seconds / 30) {
                database.advance(.seconds(30))
                try await rig.run(30, step: 30)
                try await ClockComparison(rig.broker.context, shared).look()
            }
        }
        try await ClockComparison(rig.broker.context, shared).look()
        #expect(try await Sweeper.checkClock(rig.broker.context) == (markAhead > 0 ? .behind : .doubted))
        try await run(60)
        #expect(rig.may(.begin) && rig.broker.context.watch.standing(rig.broker.context.clock).witnesses == [.store])
        try await run(2 * 3600)
        // If the clock was far ahead of the store's mark at the start, it is trusted after an hour. Sessions are buried a day
        // later.
        #expect(rig.may(.concludeLapse) == (markAhead == 0))
        #expect(!rig.may(.bury) && !rig.may(.moveMark))
        rig.tellers.withLock { $0 = [teller("p", rig)] }
        try await run(60)
        #expect(rig.may(.concludeLapse) && !rig.may(.bury))
        try await run(660)
        #expect(rig.may(.bury))
    }

    @Test(
        "A provider confirms a clock behind the mark, and then the clock jumps beyond the mark → this evidence is forgotten"
    )
    func beforeTheJump() async throws {
        let first = try TestBroker(script: .init(tokenLifetime: nil), clock: TestClock(ahead: .seconds(3 * 86_400)))
        _ = try await Sweeper.checkClock(first.context)
        let rig = try ClockRig(store: first.store, like: first)
        #expect(try await Sweeper.checkClock(rig.broker.context) == .behind)
        rig.tellers.withLock { $0 = [teller("p", rig)] }
        try await rig.run(2)
        #expect(rig.may(.begin))
        rig.broker.clock.jump(.seconds(12 * 86_400))
        #expect(!rig.may(.begin) && !rig.may(.concludeLapse))
    }

    @Test(
        "The clock is trusted, and a provider's clock is wrong → the provider is not asked, and the clock stays trusted"
    )
    func beginsNone() async throws {
        let rig = try ClockRig()
        _ = try await Sweeper.checkClock(rig.broker.context)
        let wrong = teller("wrong", rig, off: .seconds(86_400))
        rig.tellers.withLock { $0 = [wrong] }
        rig.kernel.withLock { $0 = false }
        try await rig.run(600)
        #expect(TimedAct.allCases.allSatisfy { rig.may($0) })
        #expect(wrong.asked.withLock { $0 } == 0)
    }

    @Test(
        "The clock jumps before the first start has recorded a time in the store → the time before the jump is recorded",
        arguments: [91, -1])
    func firstMark(days: Int) async throws {
        let jump = Duration.seconds(86_400 * days)
        let first = try ClockRig()
        let context = first.broker.context
        context.watch.look(context.clock)
        first.broker.clock.jump(jump)
        #expect(try await Sweeper.checkClock(context) == .doubted)
        let wrong = try ClockRig(store: first.broker.store, like: first.broker, clock: TestClock(ahead: jump))
        #expect(try await Sweeper.checkClock(wrong.broker.context) == (days > 0 ? .doubted : .behind))
        #expect(!wrong.may(.concludeLapse))
        let right = try ClockRig(store: first.broker.store, like: first.broker)
        #expect(try await Sweeper.checkClock(right.broker.context) == .believed)
    }

    // MARK: Evidence

    @Test(
        "One kind of evidence confirms a clock in doubt → sign-ins allowed at once, lapses in an hour, burials 10 minutes later"
    )
    func oneKind() async throws {
        let (rig, _) = try await away()
        rig.tellers.withLock { $0 = [teller("p", rig)] }
        try await rig.run(2)
        #expect(rig.may(.begin) && rig.may(.judgeAge) && !rig.may(.concludeLapse))
        _ = try await rig.broker.signIn()
        try await rig.run(3500)
        #expect(!rig.may(.concludeLapse))
        try await rig.run(110)
        #expect(rig.may(.concludeLapse) && !rig.may(.bury) && !rig.may(.moveMark))
        try await rig.run(570)
        #expect(!rig.may(.bury))
        try await rig.run(30)
        #expect(rig.may(.revoke) && rig.may(.bury) && rig.may(.moveMark))
        let sweeper = Sweeper(rig.broker.context, owner: "one")
        _ = try await sweeper.sweep()
        #expect(try await rig.broker.store.lease("clock") == rig.broker.clock.now)
    }

    @Test(
        "Two kinds of evidence confirm a clock in doubt → lapses allowed at once, burials in ten minutes; a new jump forbids both"
    )
    func twoKinds() async throws {
        let (rig, _) = try await away(bootedAfter: true)
        rig.kernel.withLock { $0 = true }
        try await rig.run(2)
        #expect(rig.may(.begin) && !rig.may(.concludeLapse))
        rig.tellers.withLock { $0 = [teller("p", rig)] }
        try await rig.run(2)
        #expect(rig.may(.concludeLapse) && !rig.may(.revoke) && !rig.may(.bury))
        try await rig.run(600)
        #expect(TimedAct.allCases.allSatisfy { rig.may($0) })
        rig.tellers.withLock { $0 = [] }
        rig.broker.clock.jump(.seconds(3600))
        #expect(!rig.may(.begin) && !rig.may(.concludeLapse) && !rig.may(.bury))
    }

    @Test(
        "The clock jumps and returns to its former course → sign-ins allowed at once, lapses in 10 minutes, burials an hour later"
    )
    func course() async throws {
        let rig = try ClockRig()
        let session = try await rig.broker.signIn()
        rig.broker.clock.jump(.seconds(91 * 86_400))
        #expect(!rig.may(.begin))
        rig.broker.clock.advance(.seconds(30))
        rig.broker.clock.jump(.seconds(-91 * 86_400 + 40))
        #expect(rig.may(.begin) && !rig.may(.concludeLapse))
        #expect(await problem { try await rig.broker.useCases.resumeSession.use(session.token) } == nil)
        try await rig.run(600)
        #expect(rig.may(.concludeLapse) && !rig.may(.bury))
        try await rig.run(3600)
        #expect(rig.may(.bury), "one kind of evidence has lasted for an hour and ten minutes")
    }

    @Test(
        "An earlier wrong clock moved the mark days ahead → evidence moves the mark back, and the next start trusts the clock"
    )
    func markAhead() async throws {
        let first = try TestBroker(script: .init(tokenLifetime: nil), clock: TestClock(ahead: .seconds(3 * 86_400)))
        _ = try await Sweeper.checkClock(first.context)
        let rig = try ClockRig(store: first.store, like: first)
        #expect(try await Sweeper.checkClock(rig.broker.context) == .behind)
        rig.tellers.withLock { $0 = ["p", "q"].map { teller($0, rig) } }
        try await rig.run(2)
        #expect(rig.may(.concludeLapse))
        try await rig.run(620)
        _ = try await Sweeper(rig.broker.context, owner: "one").sweep()
        #expect(try await rig.broker.store.lease("clock") == rig.broker.clock.now)
        let next = try TestBroker(store: first.store, vault: first.vault, clock: TestClock(ahead: .seconds(700)))
        #expect(try await Sweeper.checkClock(next.context) == .believed)
    }

    @Test(
        "The clocks of three ten-hour runs agree, without other evidence → the hours add up; the fourth start trusts the clock"
    )
    func agreement() async throws {
        let first = try TestBroker(script: .init(tokenLifetime: nil))
        _ = try await Sweeper.checkClock(first.context)
        var starts: [ClockStart] = []
        for turn in 0..<4 {
            let clock = TestClock(ahead: Self.week + .seconds(86_400 * (1 + turn)))
            let rig = try ClockRig(store: first.store, like: first, clock: clock)
            starts.append(try await Sweeper.checkClock(rig.broker.context))
            let sweeper = Sweeper(rig.broker.context, owner: "one")
            for _ in 0..<1200 {
                clock.advance(.seconds(30))
                _ = try await sweeper.sweep()
            }
            try await sweeper.stop()
        }
        #expect(starts == [.doubted, .uncertain, .uncertain, .believed])
    }

    @Test(
        "The clock is wrong by a different amount at each start → the hours of the runs do not add up; each start is in doubt"
    )
    func disagreement() async throws {
        let first = try TestBroker(script: .init(tokenLifetime: nil))
        _ = try await Sweeper.checkClock(first.context)
        for days in [8, 30, 9, 40] {
            let clock = TestClock(ahead: .seconds(86_400 * days))
            let rig = try ClockRig(store: first.store, like: first, clock: clock)
            #expect(try await Sweeper.checkClock(rig.broker.context) == .doubted)
            let sweeper = Sweeper(rig.broker.context, owner: "one")
            for _ in 0..<1200 {
                clock.advance(.seconds(30))
                _ = try await sweeper.sweep()
            }
            try await sweeper.stop()
        }
        #expect(try await first.store.lease("clock") == TestClock.start)
    }
}
