import Broker
import BrokerStore

/// One run: several processes over one store, a provider, people with apps, and weather; the seed decides everything.
package final class Simulation: @unchecked Sendable {
    let scheduler: Scheduler
    let weather: Weather
    let vault: SimulatedVault
    let memory: InMemoryStore
    let authority: Authority
    /// Runs the people and the store's own side.
    let lane: Lane
    var verdict = Verdict()
    var tickets: [Ticket] = []
    private var processes: [SimulatedProcess] = []
    private var awayUntil = 0
    /// How far every process's wall clock is off.
    private(set) var wallLeap = 0
    private var longestOutage = 0
    /// Which grant a session stands on.
    private var families: [Digest: Family] = [:]
    /// Refresh tokens of exchanges that were given up.
    private var givenUp: [String] = []
    /// Prints what happens.
    private let trace: Bool

    /// Faults happen while this holds.
    var isFoul: Bool { scheduler.now < weather.length }
    /// For how long it has been there.
    var storeStandsFor: Int { scheduler.now - awayUntil }
    /// How long the store is still away.
    var awayFor: Int { max(0, awayUntil - scheduler.now) }
    /// Whether every token answer is empty now.
    var answersEmpty: Bool { weather.emptyRefusals && (40_000..<640_000).contains(scheduler.now) }

    package init(seed: UInt64, _ scenario: Scenario? = nil, trace: Bool = false) {
        let scheduler = Scheduler(seed: seed)
        self.scheduler = scheduler
        self.trace = trace
        var weather = scenario?.weather(&scheduler.random) ?? Weather.mixed(&scheduler.random)
        if weather.emptyRefusals { weather.length = 700_000 }
        self.weather = weather
        vault = SimulatedVault(scheduler: scheduler)
        memory = InMemoryStore(monotonic: { .milliseconds(scheduler.now) })
        authority = Authority(rotation: weather.rotation)
        lane = Lane(scheduler)
        processes = (0..<weather.processes).map { SimulatedProcess($0, self) }
    }

    /// Runs to the end and judges.
    package func run() -> Verdict {
        for _ in 0..<weather.users {
            lane.start { [self] in await User(world: self).live() }
        }
        forecast()
        scheduler.run(until: weather.length)
        // Fine weather: what was begun is finished, and every session is asked for its token once more.
        for process in processes {
            process.lane.isPaused = false
            process.wallOffset = 0
        }
        wallLeap = 0
        awayUntil = min(awayUntil, scheduler.now)
        scheduler.run(until: weather.length + 130_000)
        // A revocation that failed in bad weather comes again within minutes, and where it failed often, within an hour.
        scheduler.run(until: weather.length + 3_700_000) { [self] in memory.outboxRows == 0 }
        let judged = Promise<Bool>()
        lane.start { [self] in
            await judge()
            judged.resolve(true)
        }
        scheduler.run(until: scheduler.now + 770_000) { judged.value != nil }
        if judged.value == nil { verdict.wrongfulLogOuts += 1 }
        for process in processes { process.crash() }
        processes = []
        scheduler.run(until: scheduler.now + 10)
        scheduler.clear()
        return verdict
    }

    /// Sets the moments of what happens by itself.
    private func forecast() {
        func moments(_ count: Int, _ body: @escaping () -> Void) {
            for _ in 0..<count { scheduler.after(scheduler.random.number(0...weather.length - 1), body) }
        }
        moments(weather.crashes) { [self] in
            let index = scheduler.random.number(0...processes.count - 1)
            let process = processes[index]
            let replace: @Sendable () -> Void = { [self] in
                guard processes[index] === process else { return }
                say("end of process \(index)")
                process.crash()
                processes[index] = SimulatedProcess(index, self)
            }
            // Some are restarted in order.
            guard scheduler.now % 3 == 0 else { return replace() }
            say("stop of process \(index)")
            process.stop(replace)
        }
        moments(weather.pauses) { [self] in
            let length = scheduler.random.number(weather.pauseRange)
            let process = scheduler.random.pick(processes)
            say("pause of process \(process.number) for \(length)")
            process.pause(length)
        }
        moments(weather.outages) { [self] in
            let length = scheduler.random.number(weather.outageRange)
            say("store away for \(length)")
            longestOutage = max(longestOutage, length)
            awayUntil = max(awayUntil, scheduler.now + length)
        }
        moments(weather.wallJumps) { [self] in
            let process = scheduler.random.pick(processes)
            process.wallOffset += scheduler.random.number(weather.wallJumpRange)
            say("wall clock of process \(process.number) is off by \(process.wallOffset)")
        }
        moments(weather.wallLeaps) { [self] in
            // A clock that is wrong for one of several replicas alone is another matter: rows have their writers' times.
            // Back by an hour only where no process starts meanwhile: it could not know, and would take a repeated
            // forward for a late one. Further back than that, a session is made that is over when the time is right.
            let isAhead = weather.crashes > 0 || scheduler.random.chance(0.7)
            let leap = isAhead ? 91 * 86_400_000 : -3_600_000
            wallLeap += leap
            say("the wall clock leaps by \(leap)")
            scheduler.after(scheduler.random.number(weather.wallLeapRange)) { [self] in
                if isFoul { wallLeap -= leap }
            }
        }
    }

    /// Returns a process that takes requests.
    func process() -> SimulatedProcess { scheduler.random.pick(processes) }

    // MARK: What the others tell

    func say(_ text: @autoclosure () -> String) {
        if trace { print("\(scheduler.now) ms: \(text())") }
    }

    func note(_ event: BrokerEvent) { say("\(event)") }

    /// Hears that tokens were written.
    func wrote(_ sealed: Sealed?, of row: Digest) {
        guard let token = refreshToken(sealed, of: row) else { return }
        authority.wrote(token, at: scheduler.now)
        if families[row] == nil, let family = authority.named(token)?.family { families[row] = family }
        say("wrote \(token)")
    }

    /// Hears that an exchange's tokens went to the outbox.
    func gaveUp(_ row: OutboxRow) {
        guard let token = refreshToken(row.tokens, of: row.boundTo) else { return }
        say("gave up \(token)")
        authority.wrote(token, at: scheduler.now, inVain: true)
        givenUp.append(token)
    }

    private func refreshToken(_ sealed: Sealed?, of row: Digest) -> String? {
        guard let sealed, let bytes = try? vault.open(sealed, as: .tokens, row: row),
            let stored = try? StoredTokens(record: bytes)
        else { return nil }
        return stored.tokens.refreshToken?.reveal()
    }

    /// Returns a new logout token for a session's user, or nil where nobody knows whose it is.
    func logoutToken(_ ticket: Ticket) -> Secret? {
        families[ticket.digest].map { Secret("logout/\($0.number)/\(scheduler.now)") }
    }

    /// The user withdraws the grant at the provider.
    func revoke(_ ticket: Ticket) {
        guard let family = families[ticket.digest], family.death == nil else { return }
        say("family \(family.number) is revoked by its user")
        family.death = .byItsUser
    }

    /// Hears that an app was given an access token.
    func handedOut(_ token: AccessToken, _ ticket: Ticket, by process: SimulatedProcess, askedAt: Int) {
        guard let (family, number) = authority.named(token.token.reveal()) else { return }
        if let from = family.strangerFrom, number >= from {
            say("FAULT: a stranger's token \(token.token.reveal()) was handed out")
            verdict.endedSessionsAlive += 1
        }
        guard let end = ticket.loggedOut else { return }
        if process === end.by && askedAt >= end.at || askedAt > end.at + 5_000 {
            say("FAULT: a session that was logged out at \(end.at) gave a token")
            verdict.endedSessionsAlive += 1
        }
    }

    // MARK: The verdict

    private func judge() async {
        verdict.codesCalledTwice += authority.codesCalledTwice.count
        if !authority.codesCalledTwice.isEmpty { say("FAULT: called twice: \(authority.codesCalledTwice.sorted())") }
        for ticket in tickets { await judge(ticket) }
        for call in authority.calls where !call.process.isDead {
            guard case .delivered(let token) = call.state, let family = call.family else { continue }
            if !authority.written.contains("rt-\(family.number)-\(token)") {
                say("FAULT: rt-\(family.number)-\(token) was thrown away")
                verdict.pairsThrownAway += 1
            }
        }
        for token in givenUp {
            guard let family = authority.named(token)?.family, !family.identityFailed, family.mishaps.isEmpty,
                longestOutage < 15_000
            else { continue }
            say("FAULT: the exchange of \(token) was given up")
            verdict.pairsThrownAway += 1
        }
    }

    private func judge(_ ticket: Ticket) async {
        var seen = User.Seen.unknown
        for _ in 0..<12 where seen == .unknown {
            seen = await User(world: self).token(ticket)
            if seen == .unknown {
                let wake = Promise<Int>()
                scheduler.after(10_000) { wake.resolve(0) }
                _ = await wake.wait()
            }
        }
        guard let row = try? await memory.session(token: ticket.digest), let family = families[ticket.digest] else {
            say("FAULT: a 201 was not kept")
            verdict.answeredWritesLost += 1
            return
        }
        if ticket.loggedOut != nil {
            if row.endReason == nil {
                say("FAULT: a 204 was not kept")
                verdict.answeredWritesLost += 1
            }
            if family.death == nil {
                say("FAULT: the grant of a session that was logged out lives at the provider")
                verdict.endedSessionsAlive += 1
            }
        }
        if row.endReason == nil, seen != .lives {
            say("FAULT: a session cannot be used any more: \(row.handle)")
            verdict.wrongfulLogOuts += 1
        }
        judge(row.endReason, ticket, family)
    }

    private func judge(_ reason: EndReason?, _ ticket: Ticket, _ family: Family) {
        let isRight =
            switch reason {
            case nil: true
            case .loggedOut: ticket.logOutAsked
            case .providerLogout: ticket.logOutSent
            case .grantRevoked: family.death == .byItsUser
            case .refreshLost:
                family.death == .byItsUser || family.mayBeLost(weather.rotation, longestOutage: longestOutage)
            case .subjectChanged: family.strangerFrom != nil
            default: false
            }
        if isRight {
            if reason == .refreshLost { verdict.beyondSaving += 1 }
            return
        }
        say(
            """
            FAULT: family \(family.number) ended wrongfully: \(reason?.rawValue ?? "") \
            (at the provider: \(family.death.map { "\($0)" } ?? "alive"), mishaps: \(family.mishaps))
            """)
        verdict.wrongfulLogOuts += 1
    }
}
