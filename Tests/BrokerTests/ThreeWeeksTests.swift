import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// A broker on SQLite runs for three weeks on a machine whose clock is often wrong (guarantee 3, decision 48).
///
/// The machine runs ten hours a day, sleeps, is restored from a snapshot, and is off for a long weekend and for nine days. If
/// any witness can confirm the clock, sign-ins are refused for at most a minute. Each session is buried within some days after
/// its end, and never too early.
@Suite(.timeLimit(.minutes(3))) struct ThreeWeeksTests {
    /// The sources that can confirm the machine's clock.
    enum Help: CaseIterable {
        /// A time service whose success the kernel confirms, and the `Date` field of a provider.
        case everything
        /// Only the `Date` field of providers, because the kernel refuses the call or reports TIME_ERROR.
        case datesAlone
        /// Neither a time service nor a provider's `Date` field.
        ///
        /// So a doubt about the clock ends only after a fixed time.
        case nothing
    }

    private static let day = 86_400

    /// The machine, with the true time, the error of its clock, and the numbers that the test counts.
    private final class Machine {
        let help: Help
        let store: InMemoryStore
        let first: TestBroker
        var truth = 0
        var offset = 0
        /// The second when the broker began to refuse sign-ins, although a source can confirm its clock.
        ///
        /// Nil while the broker accepts sign-ins.
        var refusedSince: Int?
        var longestRefusal = 0
        /// The handle of each session, with the true time of the session's end.
        var ends: [(handle: SessionHandle, end: Int)] = []
        var buriedEarly = 0
        var made: [SessionHandle] = []
        var signsIn = true

        init(_ help: Help) throws {
            self.help = help
            store = InMemoryStore()
            first = try TestBroker(store: store, clients: Self.clients, script: .init(tokenLifetime: nil))
        }

        static var clients: [ClientProfile] {
            [
                ClientProfile(
                    name: ClientName(unchecked: "ios"), login: .both,
                    redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid", "email"],
                    nonce: true,
                    lifetimes: SessionLifetimes(
                        idle: .seconds(2 * ThreeWeeksTests.day), absolute: .seconds(4 * ThreeWeeksTests.day)))
            ]
        }

        /// Starts the broker, runs it for `hours` of true time, and stops it.
        ///
        /// `meanwhile` may change the clock. The closure's first argument is the number of minutes since the start.
        func run(hours: Int, boots: Bool = true, _ meanwhile: (Int, ClockRig) throws -> Void = { _, _ in }) async throws
        {
            let clock = TestClock(ahead: .seconds(truth + offset))
            if !boots { clock.advanceMonotonic(.seconds(30 * ThreeWeeksTests.day)) }
            let rig = try ClockRig(store: store, like: first, clock: clock, clients: Self.clients)
            let said = Mutex(truth)
            if help != .nothing {
                rig.tellers.withLock {
                    $0 = [
                        ClockRig.Teller("p", host: "p.example") {
                            TestClock.start.advanced(by: .seconds(said.withLock { $0 }))
                        }
                    ]
                }
            }
            // After a boot, the time service needs a minute until it knows the time.
            rig.kernel.withLock { $0 = help == .everything ? false : nil }
            _ = try await Sweeper.checkClock(rig.broker.context)
            let sweeper = Sweeper(rig.broker.context, owner: "one")
            for minute in 0..<(hours * 60) {
                try meanwhile(minute, rig)
                for _ in 0..<2 {
                    clock.advance(.seconds(30))
                    truth += 30
                    said.withLock { $0 = truth }
                    if help == .everything {
                        // A minute after the boot, the time service corrects a wrong clock. From then on, the kernel confirms
                        // the time.
                        if minute >= 1, error(clock) != 0 { clock.jump(.seconds(-error(clock))) }
                        rig.kernel.withLock { $0 = minute >= 1 }
                    }
                    try await rig.inquiry.look()
                }
                if minute % 5 == 0 { _ = try await sweeper.sweep() }
                try await signIn(rig, clock, isDue: minute % 60 == 30)
                if minute % 30 == 0 { try await countBuried() }
            }
            try await sweeper.stop()
            offset = error(clock)
        }

        private func error(_ clock: TestClock) -> Int {
            Int(clock.now.since(TestClock.start.advanced(by: .seconds(truth))).wholeSeconds)
        }

        private func signIn(_ rig: ClockRig, _ clock: TestClock, isDue: Bool) async throws {
            let isEvident = help != .nothing && abs(error(clock)) <= 60
            if rig.may(.begin) || !isEvident {
                refusedSince = nil
            } else {
                refusedSince = refusedSince ?? truth
                longestRefusal = max(longestRefusal, truth - (refusedSince ?? truth))
            }
            guard isDue, signsIn, rig.may(.begin) else { return }
            let signedIn = try await rig.broker.signIn(code: "code-\(truth)")
            made.append(signedIn.session.handle)
            ends.append((signedIn.session.handle, truth + 2 * ThreeWeeksTests.day))
        }

        private func countBuried() async throws {
            for entry in ends where truth < entry.end {
                let row = try await store.session(handle: entry.handle)
                if row.map({ $0.endedAt != nil }) ?? true { buriedEarly += 1 }
            }
            ends.removeAll { truth >= $0.end }
        }

        func off(hours: Int) { truth += hours * 3600 }
    }

    @Test(
        "A machine runs ten hours daily for three weeks, at times with a wrong clock → no early burial, no long sign-in refusal",
        arguments: Help.allCases)
    func threeWeeks(help: Help) async throws {
        let machine = try Machine(help)
        for day in 0..<21 {
            switch day {
            case 3:
                // The machine sleeps for three hours at noon. Its boot clock counts these hours, too.
                try await machine.run(hours: 5)
                machine.off(hours: 3)
                try await machine.run(hours: 5, boots: false)
            case 5:
                // A person sets the clock to a wrong time, and fifteen minutes later the time service corrects it.
                try await machine.run(hours: 10) { minute, rig in
                    if minute == 60 { rig.broker.clock.jump(.seconds(7200)) }
                    if minute == 75, help != .everything { rig.broker.clock.jump(.seconds(-7200)) }
                }
            case 8:
                // The machine is restored from a snapshot of two days ago, so the clock is behind until it is set.
                machine.offset -= 2 * Self.day
                try await machine.run(hours: 10, boots: false) { minute, rig in
                    if minute == 30, help != .everything { rig.broker.clock.jump(.seconds(2 * Self.day)) }
                }
            case 11:
                // The battery is dead, so the clock starts forty days ahead, and is set within the hour.
                machine.offset += 40 * Self.day
                try await machine.run(hours: 10) { minute, rig in
                    if minute == 40, help != .everything { rig.broker.clock.jump(.seconds(-40 * Self.day)) }
                }
            default: try await machine.run(hours: 10)
            }
            machine.off(hours: 14)
            // The machine is off over a long weekend, and later for nine days.
            if day == 13 { machine.off(hours: 72) }
            if day == 16 { machine.off(hours: 9 * 24) }
        }
        #expect(machine.buriedEarly == 0)
        if help != .nothing { #expect(machine.longestRefusal <= 60) }
        #expect(machine.offset == 0)
        // Users have stopped signing in. After eight days with ten hours each, all lapsed sessions must be buried.
        machine.signsIn = false
        for _ in 0..<8 {
            try await machine.run(hours: 10)
            machine.off(hours: 14)
        }
        #expect(machine.made.count > 100)
        var left = 0
        for handle in machine.made {
            if let row = try await machine.store.session(handle: handle), row.endedAt == nil { left += 1 }
        }
        #expect(left == 0, "of \(machine.made.count) sessions")
    }
}
