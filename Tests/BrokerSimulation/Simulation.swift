import Broker
import BrokerTestSupport

/// One run of several broker processes with one store, one provider, people with apps, and faults (the weather).
///
/// The seed decides every random choice.
package final class Simulation: @unchecked Sendable {
    let scheduler: Scheduler
    let weather: Weather
    let vault: SimulatedVault
    let memory: InMemoryStore
    let authority: Authority
    /// The executor for the tasks of people and of the store, which go on when a process crashes.
    let lane: Lane
    var verdict = Verdict()
    var tickets: [Ticket] = []
    /// The sessions of widgets.
    var children: [Ticket] = []
    private var processes: [SimulatedProcess] = []
    private var startedProcesses = 0
    private(set) var awayUntil = 0
    /// The moment when the lock on the tables of sealed values ends.
    private var heldUntil = 0
    private(set) lazy var rules = Rules(self)
    private(set) lazy var imports = Imports(self)
    private(set) lazy var moves = Moves(self)
    /// The difference between the wall clocks of all processes and the true time, in milliseconds.
    private(set) var wallLeap = 0
    /// The number of the broker's newest client certificate.
    private(set) var certificate = 1
    /// The difference between the store's own clock and the true time, in milliseconds.
    private(set) var storeOffset = 0
    private var longestOutage = 0
    private var awaySince = 0
    /// The present grant of each session, by the session's digest.
    private var families: [Digest: Family] = [:]
    /// The session of each present grant, by the number of the grant.
    private var sessions: [Int: Digest] = [:]
    /// The former grants of sessions, which step-ups have replaced.
    private var former: [Digest: [Family]] = [:]
    /// The refresh tokens of exchanges that a process gave up, and whether the process then judged times by a wrong clock.
    private var givenUp: [(token: String, byWrongClock: Bool)] = []
    /// All sessions, in the order in which they were stored.
    private var made: [SessionRow] = []
    /// The users that the provider has sent a logout token for.
    private var noticed: Set<Int> = []
    /// The codes whose users were told to sign in again.
    private(set) var refusedCodes: Set<String> = []
    let standing = Standing()
    let stepUps = StepUps()
    let presences = Presences()
    let childRows = ChildRows()
    /// The moment of the last trouble, such as a crash or an outage.
    private(set) var troubledAt = -1_000_000
    private var listeners: [SessionListener] = []
    /// Whether the run prints its events.
    private let trace: Bool
    /// The record of all calls through the ports; nil if they are not recorded.
    let ports: PortTrace?

    /// Whether the present part of the run has faults.
    var isFoul: Bool { scheduler.now < weather.length }
    /// The time until the lock on the tables of sealed values ends; zero if there is no lock.
    var heldFor: Int { max(0, heldUntil - scheduler.now) }
    /// Whether the provider's token endpoint now answers each call with an empty 401.
    var answersEmpty: Bool { weather.emptyRefusals && (40_000..<640_000).contains(scheduler.now) }

    /// Creates a run.
    ///
    /// - Parameters:
    ///   - seed: The seed that decides everything.
    ///   - scenario: The kind of weather; nil for mixed weather.
    ///   - trace: Whether to print the events.
    ///   - ports: Whether to record the calls through ports.
    ///   - printsPorts: Whether to print these calls, too.
    package init(
        seed: UInt64, _ scenario: Scenario? = nil, trace: Bool = false, ports: Bool = false, printsPorts: Bool = false
    ) {
        let scheduler = Scheduler(seed: seed)
        self.scheduler = scheduler
        self.trace = trace
        self.ports = ports ? PortTrace(prints: printsPorts) : nil
        var weather = scenario?.weather(&scheduler.random) ?? Weather.mixed(&scheduler.random)
        if weather.emptyRefusals { weather.length = 700_000 }
        self.weather = weather
        vault = SimulatedVault(scheduler: scheduler, ring: SimulatedVault.Ring())
        memory = InMemoryStore(monotonic: { .milliseconds(scheduler.now) })
        authority = Authority(rotation: weather.rotation)
        lane = Lane(scheduler)
        authority.standing = { [unowned self] session in families[session] }
        processes = (0..<weather.processes).map { SimulatedProcess($0, self) }
    }

    /// Returns the number for the next process that the run starts.
    func nextProcessID() -> Int {
        startedProcesses += 1
        return startedProcesses
    }

    /// The number of calls through the broker's ports so far, and a hash of these calls; nil if they are not recorded.
    package var portSummary: String? { ports?.summary }

    /// Runs the simulation to its end, and returns the verdict.
    package func run() -> Verdict {
        for _ in 0..<weather.users {
            lane.start { [self] in await User(world: self).live() }
        }
        forecast()
        scheduler.run(until: weather.length)
        // The part of the run with faults is over. Let the work in progress finish, and then request the access token of every
        // session once more.
        for process in processes {
            process.clearUp()
        }
        heldUntil = min(heldUntil, scheduler.now)
        (wallLeap, storeOffset) = (0, 0)
        awayUntil = min(awayUntil, scheduler.now)
        scheduler.run(until: weather.length + 130_000)
        // A revocation that failed during the faults is retried within minutes, or within an hour if it failed many times.
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

    /// Chooses the moments of the faults of this run, such as crashes.
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
            // About a third of the crashes become orderly stops.
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
            // If two outages overlap, a claim cannot be renewed during both. So count them as one long outage.
            if scheduler.now >= awayUntil { awaySince = scheduler.now }
            awayUntil = max(awayUntil, scheduler.now + length)
            longestOutage = max(longestOutage, awayUntil - awaySince)
            for process in processes {
                process.loseStore(until: awayUntil + scheduler.random.number(weather.foundAgainRange))
            }
        }
        moments(weather.partitions) { [self] in
            let length = scheduler.random.number(weather.partitionRange)
            let process = scheduler.random.pick(processes)
            say("process \(process.number) is cut off from the store for \(length)")
            process.cutOff(for: length)
        }
        moments(weather.heldWrites) { [self] in
            let length = scheduler.random.number(weather.heldRange)
            say("tables of sealed values are locked for \(length)")
            heldUntil = max(heldUntil, scheduler.now + length)
        }
        moments(weather.cuts) { [self] in
            let process = scheduler.random.pick(processes)
            say("process \(process.number) receives no notices for a while")
            process.notices?.breakOff(for: scheduler.random.number(weather.cutRange))
        }
        moments(weather.rotations) { [self] in
            vault.ring.newest += 1
            say("the ring has key \(vault.ring.newest)")
            noteTrouble()
            for process in processes {
                let newest = vault.ring.newest
                scheduler.after(scheduler.random.number(weather.rotationRange)) {
                    process.ring.newest = max(process.ring.newest, newest)
                }
            }
        }
        moments(weather.renewals) { [self] in
            certificate += 1
            let renewed = certificate
            say("the certificate is renewed: \(renewed)")
            noteTrouble()
            scheduler.after(scheduler.random.number(weather.acceptanceRange)) { [self] in
                authority.acceptedCertificate = max(authority.acceptedCertificate, renewed)
            }
            for process in processes {
                scheduler.after(scheduler.random.number(weather.renewalRange)) { process.shows(certificate: renewed) }
            }
        }
        moments(weather.wallJumps) { [self] in
            let process = scheduler.random.pick(processes)
            process.wallOffset += scheduler.random.number(weather.wallJumpRange)
            say("wall clock of process \(process.number) is off by \(process.wallOffset)")
            comesBack { process.wallOffset = 0 }
        }
        moments(weather.storeJumps) { [self] in
            storeOffset = scheduler.random.number(weather.wallJumpRange)
            say("the store's clock is off by \(storeOffset)")
            comesBack { [self] in storeOffset = 0 }
        }
        moments(weather.wallLeaps) { [self] in
            // All replicas get the same wrong clock. If only one of them were wrong, this would be another fault, because rows
            // contain the times of their writers.
            //
            // The clock goes back only by an hour, and only if no process starts meanwhile. A process that starts now could not
            // know of the error, and would treat a repeated forward as late. If the clock went back further, a session that
            // begins now would have ended when the clock is set right.
            let isAhead = weather.crashes > 0 || scheduler.random.chance(0.7)
            let leap = isAhead ? 91 * 86_400_000 : -3_600_000
            wallLeap += leap
            say("the wall clock leaps by \(leap)")
            scheduler.after(scheduler.random.number(weather.wallLeapRange)) { [self] in
                if isFoul { wallLeap -= leap }
            }
        }
    }

    /// If the weather includes this, sets a clock right again after a while.
    private func comesBack(_ setRight: @escaping () -> Void) {
        guard weather.clocksComeBack else { return }
        scheduler.after(scheduler.random.number(2_000...200_000)) { [self] in
            say("a clock is set right")
            setRight()
        }
    }

    /// Returns a random process.
    func process() -> SimulatedProcess { scheduler.random.pick(processes) }

    /// All processes.
    var all: [SimulatedProcess] { processes }

    func session(of family: Family) -> Digest? { sessions[family.number] }

    func listen(_ listener: SessionListener) { listeners.append(listener) }

    // MARK: Events of the run

    func say(_ text: @autoclosure () -> String) {
        if trace { print("\(scheduler.now) ms: \(text())") }
    }

    func note(_ event: BrokerEvent, by process: SimulatedProcess) {
        say("\(event)")
        guard case .targetRefused(_, _, let handle, _) = event else { return }
        rules.refusedTarget(
            of: made.last { $0.handle == handle }?.tokenDigest, by: process, authority.calls)
    }

    /// Notes a trouble, such as a crash.
    ///
    /// After it, a session may have to wait for its access token.
    func noteTrouble() { troubledAt = scheduler.now }

    /// Notes that an access token was written into a session's row.
    func storedTokens(_ sealed: Sealed?, of row: Digest) {
        if let text = accessToken(sealed, of: row) { standing.stores(text, of: row, at: scheduler.now) }
    }

    /// Notes that tokens were written to the store.
    ///
    /// `inVain` means that they are in the outbox, only to be revoked.
    func wrote(_ sealed: Sealed?, of row: Digest, inVain: Bool = false) {
        guard let token = refreshToken(sealed, of: row) else { return }
        authority.wrote(token, at: scheduler.now, inVain: inVain)
        if families[row] == nil, let family = authority.named(token)?.family {
            families[row] = family
            sessions[family.number] = row
        }
        say("wrote \(token)")
    }

    /// Notes a committed refresh.
    ///
    /// The refresh's tokens must not belong to a grant that a step-up has replaced.
    func refreshed(_ commit: RefreshCommit) {
        if let token = refreshToken(commit.tokens, of: commit.tokenDigest),
            let family = authority.named(token)?.family, let own = families[commit.tokenDigest], own !== family
        {
            say("FAULT: \(token) was stored after a step-up had replaced its grant")
            verdict.rulesBroken += 1
        }
        wrote(commit.tokens, of: commit.tokenDigest)
        storedTokens(commit.tokens, of: commit.tokenDigest)
        standing.replaces(commit.tokenDigest, at: scheduler.now)
        standing.marks(commit.tokenDigest, isUnchecked: commit.subjectUnchecked, at: scheduler.now)
        if let token = commit.targetToken { stored(token) }
    }

    /// Returns the version that a session's own access token has after a commit.
    ///
    /// A refresh for another API does not change this version.
    func accessVersion(_ commit: RefreshCommit) -> Int64 {
        let bytes = try? vault.open(commit.tokens, as: .tokens, row: commit.tokenDigest)
        return bytes.flatMap { try? StoredTokens(record: $0) }?.accessVersion ?? commit.tokenVersion + 1
    }

    /// Notes that an access token for another API was stored, which has to belong to the session's present grant.
    func stored(_ row: TargetTokenRow) {
        guard let bytes = try? vault.open(row.tokens, as: .targetToken, row: row.key),
            let kept = try? StoredTokens(record: bytes),
            let family = authority.named(kept.tokens.accessToken.reveal())?.family
        else {
            say("FAULT: a stored access token for another API cannot be opened")
            verdict.rulesBroken += 1
            return
        }
        standing.keeps(kept.tokens.accessToken.reveal(), as: row.key, of: row.session, at: scheduler.now)
        let isOwn = families[row.session].map { $0 === family || isLent(family, to: $0) } ?? false
        if kept.tokens.refreshToken != nil || !isOwn {
            say(
                "FAULT: \(kept.tokens.accessToken.reveal()) was stored with a refresh token, or for a session of another grant"
            )
            verdict.rulesBroken += 1
        }
    }

    /// Whether a session may use an access token of another grant, because a step-up of the same person brought no refresh
    /// token.
    private func isLent(_ family: Family, to own: Family) -> Bool {
        family.hasNoRefreshToken && family.person == own.person
    }

    /// Checks that a session's access tokens for other APIs are deleted, because the session has ended or has got another
    /// grant.
    private func checkHasNoTargetTokens(_ session: Digest) {
        standing.drops(session, at: scheduler.now)
        guard memory.targetTokenRows.contains(where: { $0.session == session }) else { return }
        say("FAULT: tokens for other APIs are still stored after the session's end or step-up")
        verdict.rulesBroken += 1
    }

    /// Returns the present grant of a session.
    func family(of session: Digest) -> Family? { families[session] }

    /// Judges an access token that an app got for an API other than the session's own.
    func handedOut(
        _ token: AccessToken, for target: TokenTarget, _ ticket: Ticket, by process: SimulatedProcess, askedAt: Int
    ) {
        let text = token.token.reveal()
        guard let (family, number) = authority.named(text), text.hasSuffix("@" + SimulatedTarget(target).name) else {
            say("FAULT: \(text) was handed out for the wrong target, \(target)")
            verdict.rulesBroken += 1
            return
        }
        let isUnbound = weather.nonces != .unbound && token.key == nil
        let isStrangers = family.strangerFrom.map { number >= $0 } ?? false
        rules.gave(kept: token, of: ticket.holder.digest, by: process, askedAt: askedAt)
        rules.checkCertificate(token, of: ticket.holder.digest, by: process, askedAt: askedAt)
        // If the call was in progress during the step-up, it may still get a token of the former grant.
        let isFormer = family.replacedAt.map { askedAt <= $0 + 5_000 } ?? false
        let own = families[ticket.holder.digest]
        let isOthers = own.map { $0 !== family && !isLent(family, to: $0) } ?? false
        if isUnbound || isStrangers || (isOthers && !isFormer && process.isUndisturbed(since: askedAt)) {
            say(
                "FAULT: \(text) was handed out (unbound: \(isUnbound), stranger's: \(isStrangers), other's: \(isOthers))"
            )
            verdict.endedSessionsAlive += 1
        }
    }

    /// Notes a committed step-up.
    ///
    /// Afterwards, the session either has the step-up's grant, or keeps its former grant.
    func steppedUp(_ commit: StepUpCommit, by process: SimulatedProcess) {
        announce(
            commit.isNewGrant ? .changed([commit.tokenDigest]) : .steppedUp([commit.tokenDigest]),
            version: commit.version + 1, of: commit.tokenDigest, by: process)
        let token = refreshToken(commit.tokens, of: commit.tokenDigest)
        say("stepped up with \(token ?? "nothing")")
        // If the session keeps its refresh token, the version of its tokens also stays. So a refresh that was about to claim
        // this version goes on.
        if !commit.isNewGrant { rules.wants(newerThan: commit.tokenVersion, of: commit.tokenDigest) }
        check(commit)
        checkHasNoTargetTokens(commit.tokenDigest)
        storedTokens(commit.tokens, of: commit.tokenDigest)
        if commit.isNewGrant { standing.marks(commit.tokenDigest, isUnchecked: false, at: scheduler.now) }
        rules.refusedTargets.forget(commit.tokenDigest)
        // If the session keeps its refresh token, it keeps its grant, and the grant's earlier mishaps still count.
        guard commit.isNewGrant, let token, let family = authority.named(token)?.family else { return }
        if let old = families[commit.tokenDigest], old !== family {
            old.replacedAt = scheduler.now
            former[commit.tokenDigest, default: []].append(old)
            sessions[old.number] = nil
            families[commit.tokenDigest] = family
            sessions[family.number] = commit.tokenDigest
        }
        authority.wrote(token, at: scheduler.now)
    }

    /// Notes that the presence key of a session was stored.
    func changed(_ session: Digest, by process: SimulatedProcess) async {
        guard let row = try? await memory.session(tokenDigest: session) else { return }
        announce(.changed([session]), version: row.version, of: session, by: process)
    }

    /// Sends the other processes the notice that a session has a new version.
    private func announce(
        _ notice: EndingNotice, version: Int64, of session: Digest, by process: SimulatedProcess
    ) {
        scheduler.after(scheduler.random.number(100...150)) { [self] in
            for other in processes where other !== process {
                other.notices?.hear(notice) { [self] in rules.heard(of: version, of: session, in: other) }
            }
        }
    }

    /// Returns the row of the session that a child depends on.
    func parent(of child: SessionRow) async -> SessionRow? {
        guard let lineage = child.lineage else { return nil }
        return try? await memory.session(tokenDigest: lineage.parent)
    }

    /// Returns the person who owns the session of a ticket.
    func person(of ticket: Ticket) -> Int? { families[ticket.digest]?.person }

    /// Notes that an app got the answer to its step-up.
    ///
    /// From then on, the store must never lose this step-up.
    func told(of steppedUp: SteppedUp, _ ticket: Ticket) {
        guard let at = steppedUp.session.signIn.authenticatedAt else {
            say("FAULT: an answered step-up lacks the time of its sign-in")
            verdict.answeredWritesLost += 1
            return
        }
        ticket.signedInAt = max(ticket.signedInAt, at)
    }

    /// Reports a fault: an app repeated a step-up that was already answered, and was refused.
    func forgot(_ ticket: Ticket) {
        say("FAULT: the repetition of an answered step-up was refused")
        verdict.answeredWritesLost += 1
    }

    /// Notes that a session was stored.
    func stored(_ row: SessionRow) { made.append(row) }

    /// Returns the number of sessions that were ever stored for a person.
    func sessions(of person: Int) -> Int {
        let subject = vault.index(.subject, [SimulatedProvider.issuer, "user-\(person)"])
        return made.count { $0.subject == subject }
    }

    /// Notes that sessions ended in the store, and sends the other processes the notice.
    func ended(_ tokenDigests: [Digest], _ reason: EndReason, by process: SimulatedProcess) {
        guard !tokenDigests.isEmpty else { return }
        rules.ended(tokenDigests, by: process, listeners: listeners)
        for tokenDigest in tokenDigests {
            families[tokenDigest]?.isSessionEnded = true
            checkHasNoTargetTokens(tokenDigest)
        }
        let ended = tokenDigests.map { EndedSession(tokenDigest: $0, reason: reason) }
        scheduler.after(scheduler.random.number(100...150)) { [self] in
            for other in processes where other !== process { other.notices?.hear(.ended(ended)) }
        }
    }

    /// Notes that a user was told for good to sign in again, because a code was refused.
    func refused(_ code: String) { refusedCodes.insert(code) }

    /// Notes that the grant of a step-up has to end, because a later step-up of the same session was stored first.
    func overtaken(_ row: OutboxRow, of session: Digest) {
        guard let token = refreshToken(row.tokens, of: row.boundTo), let (family, number) = authority.named(token),
            number == 0
        else { return }
        say("overtaken \(token)")
        authority.wrote(token, at: scheduler.now, inVain: true)
        family.replacedAt = scheduler.now
        former[session, default: []].append(family)
    }

    /// Notes that a process has given up an exchange and put its tokens into the outbox.
    func gaveUp(_ row: OutboxRow, by process: SimulatedProcess) {
        // The refresh token from a code's answer has the number 0. Another number means that the answer repeated the session's
        // older token.
        guard let token = refreshToken(row.tokens, of: row.boundTo), authority.named(token)?.token == 0 else { return }
        say("gave up \(token)")
        authority.wrote(token, at: scheduler.now, inVain: true)
        givenUp.append((token, process.judgesTimesWrongly))
    }

    private func tokens(_ sealed: Sealed?, of row: Digest) -> TokenSet? {
        guard let sealed, let bytes = try? vault.open(sealed, as: .tokens, row: row) else { return nil }
        return (try? StoredTokens(record: bytes))?.tokens
    }

    private func refreshToken(_ sealed: Sealed?, of row: Digest) -> String? {
        tokens(sealed, of: row)?.refreshToken?.reveal()
    }

    /// Returns the certificate that a sealed access token is bound to.
    func certificate(_ sealed: Sealed?, of row: Digest) -> String? { tokens(sealed, of: row)?.certificate }

    /// Returns the access token in a sealed value.
    func accessToken(_ sealed: Sealed?, of row: Digest) -> String? { tokens(sealed, of: row)?.accessToken.reveal() }

    /// Returns a new logout token for a session's user; nil if the user is unknown.
    func logoutToken(_ ticket: Ticket) -> Secret? {
        families[ticket.digest].map { family in
            noticed.insert(family.person)
            return Secret("logout/\(family.person)/\(scheduler.now)")
        }
    }

    /// Ends the grant at the provider, as if its user had withdrawn it there.
    func revoke(_ ticket: Ticket) {
        guard let family = families[ticket.digest], family.death == nil else { return }
        say("family \(family.number) is revoked by its user")
        family.death = .byItsUser
    }

    /// Judges an access token that an app got for the session's own API.
    func handedOut(_ token: AccessToken, _ ticket: Ticket, by process: SimulatedProcess, askedAt: Int) {
        if token.token.isEmpty || (weather.nonces != .unbound && token.key == nil) {
            say("FAULT: an access token that is bound to no key was handed out")
            verdict.endedSessionsAlive += 1
        }
        guard let (family, number) = authority.named(token.token.reveal()) else { return }
        if let from = family.strangerFrom, number >= from {
            say("FAULT: access token \(token.token.reveal()) of another user was handed out")
            verdict.endedSessionsAlive += 1
        }
        let isLent = family.hasNoRefreshToken && family.person == families[ticket.holder.digest]?.person
        // The app may get a token of the former grant in two cases: its call was in progress during the step-up; or the process
        // used a session from its cache, which is at most five seconds old.
        let isFormer = family.replacedAt.map { askedAt <= $0 + 5_000 } ?? false
        if let own = families[ticket.holder.digest], own !== family, !isLent, !isFormer {
            say("FAULT: a token of another session was handed out")
            verdict.endedSessionsAlive += 1
        }
        rules.handedOut(token, of: ticket.holder.digest, by: process, askedAt: askedAt)
        rules.gave(own: token, of: ticket.holder.digest, by: process, askedAt: askedAt)
        rules.checkCertificate(token, of: ticket.holder.digest, by: process, askedAt: askedAt)
        guard let end = ticket.holder.loggedOut ?? ticket.replaced else { return }
        // Within three seconds, another process receives the notice of the end, or notices that its connection for notices is
        // broken. A process that was disturbed may use a cached session for five seconds.
        let patience = process.isUndisturbed(since: end.at) ? 3_000 : 5_000
        if process === end.by && askedAt >= end.at || askedAt > end.at + patience {
            say("FAULT: a token was handed out for a session that was logged out or replaced at \(end.at)")
            verdict.endedSessionsAlive += 1
        }
    }

    // MARK: The verdict

    /// Judges an accepted call with a session.
    ///
    /// The broker must refuse a session that has lapsed.
    func used(_ ticket: Ticket, askedAt: Int) {
        if let idleEnd = weather.idleEnd, askedAt > ticket.usedAt + idleEnd + weather.lateEnd {
            say("FAULT: a session was accepted after its idle end, \(askedAt - ticket.usedAt) ms after its last use")
            verdict.endedSessionsAlive += 1
        }
        for used in ticket.isPage ? [ticket] : [ticket, ticket.holder] {
            (used.usedAt, used.answeredAt) = (scheduler.now, scheduler.now)
        }
    }

    /// Reports a fault: a program that is not the login's starter got the result of a user's code.
    func toldStranger(_ what: String) {
        say("FAULT: a stranger got \(what)")
        verdict.endedSessionsAlive += 1
    }

    /// Judges the broker's answer that a session has ended.
    func toldOfEnd(_ ticket: Ticket) async {
        guard let row = try? await memory.session(tokenDigest: ticket.digest), row.endedAt == nil else { return }
        if let idleEnd = weather.idleEnd {
            // Compare with the simulation's own clock. A use moves the idle end at most once in a hundredth of the idle time,
            // and at most once a second. A page's session ends with its parent, but a use of the page does not move the
            // parent's idle end.
            if let used = ticket.answeredAt, let holders = ticket.holder.answeredAt,
                case let unused = scheduler.now - min(used, holders),
                unused < idleEnd - max(1_500, idleEnd / 100 + 500)
            {
                say("FAULT: a session was refused as lapsed only \(unused) ms after its last use: \(row.handle)")
                verdict.wrongfulLogOuts += 1
            }
            if weather.clocksComeBack { return }
            if await hasEnded(ticket.digest) { return }
            if await hasLapsed(ticket.holder.digest) { return }
        }
        if let parent = ticket.parent, let row = try? await memory.session(tokenDigest: parent.digest),
            row.endedAt != nil
        {
            say("FAULT: a child is live in the store after its parent has ended")
            verdict.endedSessionsAlive += 1
        }
        say("FAULT: an app was told that its session is over, but the session is live: \(row.handle)")
        verdict.wrongfulLogOuts += 1
    }

    /// The time that the store's own clock shows.
    var storeTime: WallTime {
        WallTime(milliseconds: SimulatedProcess.begin + Int64(scheduler.now + wallLeap + storeOffset))
    }

    /// The true time.
    var wallTime: WallTime { WallTime(milliseconds: SimulatedProcess.begin + Int64(scheduler.now)) }

    private func judge() async {
        verdict.codesCalledTwice += authority.codesCalledTwice.count
        if !authority.codesCalledTwice.isEmpty {
            say("FAULT: codes were sent to the provider twice: \(authority.codesCalledTwice.sorted())")
        }
        for ticket in tickets { await judge(ticket) }
        for child in children { await judge(child: child) }
        imports.judge()
        // A caller with a valid access token gets it while a refresh is still in progress. So wait until the result of each
        // refresh is written.
        let settled = Promise<Bool>()
        scheduler.after(30_000) { settled.resolve(true) }
        _ = await settled.wait()
        for call in authority.calls where !call.process.isDead {
            guard case .delivered(let token) = call.state, !call.isExchange, let family = call.family,
                !family.hasNoRefreshToken
            else {
                continue
            }
            if !authority.written.contains("rt-\(family.number)-\(token)") {
                say("FAULT: refresh token rt-\(family.number)-\(token) was received and never stored")
                verdict.pairsThrownAway += 1
            }
        }
        await judgeStepUps()
        await rules.judgeChildren()
        for code in refusedCodes {
            guard let family = authority.family(of: code), sessions[family.number] != nil else { continue }
            say("FAULT: the session of \(code) was made, but its user was told to sign in again")
            verdict.answeredWritesLost += 1
        }
        for (token, byWrongClock) in givenUp {
            guard let family = authority.named(token)?.family, !family.identityFailed, !family.isUnfit,
                family.mishaps.isEmpty
            else {
                continue
            }
            if let session = authority.session(of: family.code) {
                // The broker may give up the exchange of a step-up in two cases: the session has ended meanwhile; or, on a
                // wrong clock, the sign-in seemed too old.
                if weather.wallLeaps > 0 || byWrongClock { continue }
                if await hasEnded(session) { continue }
            }
            say("FAULT: a sign-in is lost: the exchange of \(token) was given up")
            verdict.signInsLost += 1
        }
    }

    func hasEnded(_ session: Digest) async -> Bool {
        guard let row = try? await memory.session(tokenDigest: session) else { return true }
        return row.endedAt != nil || SessionEnds(row).lapse(at: wallTime) != nil
    }

    private func hasLapsed(_ session: Digest) async -> Bool {
        guard let row = try? await memory.session(tokenDigest: session) else { return false }
        return SessionEnds(row).lapse(at: wallTime) != nil
    }

    /// Judges a child session at the end of the run.
    ///
    /// The child must be in the store, and must have ended if its parent has.
    private func judge(child: Ticket) async {
        guard let row = try? await memory.session(tokenDigest: child.digest),
            let parent = try? await memory.session(tokenDigest: child.holder.digest)
        else {
            say("FAULT: a child is missing in the store, although its app got a 201")
            verdict.answeredWritesLost += 1
            return
        }
        if child.replaced != nil, row.endedAt == nil {
            say("FAULT: a child is live, although its replacement was answered: \(row.handle)")
            verdict.answeredWritesLost += 1
        }
        if parent.endedAt != nil {
            let seen = await User(world: self).token(child)
            guard row.endedAt == nil || seen == .lives else { return }
            say("FAULT: a child is usable after its parent has ended: \(row.handle)")
            verdict.endedSessionsAlive += 1
        } else if row.endedAt != nil, row.endReason != .replaced, !(child.isPage && row.endReason == .sessionLimit) {
            // A child may end with the reason `replaced`: if an app requests a child twice, the first request may reach the
            // store last, and its child then replaces the child of the second request.
            say("FAULT: a child ended without its parent: \(row.endReason?.rawValue ?? "")")
            verdict.wrongfulLogOuts += 1
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
        guard let row = try? await memory.session(tokenDigest: ticket.digest), let family = families[ticket.digest]
        else {
            say("FAULT: a session is missing in the store, although its app got a 201")
            verdict.answeredWritesLost += 1
            return
        }
        if ticket.loggedOut != nil {
            if row.endReason == nil {
                say("FAULT: a session is live in the store, although its app got a 204 for the log-out")
                verdict.answeredWritesLost += 1
            }
            // If a process's clock is behind the store's mark, the process revokes no tokens until evidence confirms its clock
            // (decision 48).
            if family.death == nil, weather.reach == .token, processes.contains(where: \.mayRevoke) {
                say("FAULT: the grant of a session that was logged out lives at the provider")
                verdict.endedSessionsAlive += 1
            }
        }
        if row.endReason == nil, ticket.signedInAt > 0 {
            let at = (try? SessionFacts.open(row, vault))?.signIn.authenticatedAt ?? 0
            if at < ticket.signedInAt {
                say("FAULT: an answered step-up is missing in the store")
                verdict.answeredWritesLost += 1
            }
        }
        if row.endReason == nil, weather.shrinks > 0, weather.stepUps == 0 { judgeScope(row) }
        for old in former[ticket.digest, default: []] where old.death == nil && weather.reach == .token {
            say("FAULT: grant \(old.number) lives at the provider, although a step-up has replaced it")
            verdict.endedSessionsAlive += 1
        }
        let hasLapsed = weather.idleEnd != nil && SessionEnds(row).lapse(at: wallTime) != nil
        // If the grant is dead, the provider refuses refreshes. After a change of the certificate, the broker counts such
        // refusals for ten minutes before it ends the session.
        let isDead = family.death == .byItsUser || family.mayBeLost(weather.rotation, longestOutage: longestOutage)
        if row.endReason == nil, seen != .lives, weather.isCertified, isDead { return }
        if row.endReason == nil, seen != .lives, !hasLapsed {
            say("FAULT: a session is live in the store, but the broker does not serve it: \(row.handle)")
            verdict.wrongfulLogOuts += 1
        }
        judge(row.endReason, ticket, family)
    }

    /// Checks that a session no longer has a scope that the provider has taken away.
    private func judgeScope(_ row: SessionRow) {
        let granted = tokens(row.tokens, of: row.tokenDigest)?.scope ?? []
        let told = (try? SessionFacts.open(row, vault))?.scope ?? []
        guard granted != told else { return }
        say("FAULT: a session has the scope \(told), but the provider granted \(granted)")
        verdict.rulesBroken += 1
    }

    /// Whether the same person has so many newer sessions that the limit of sessions has ended this session.
    private func isBeyondLimit(_ ticket: Ticket) -> Bool {
        guard let index = made.firstIndex(where: { $0.tokenDigest == ticket.digest }) else { return false }
        let own = made[index]
        let newer = made.enumerated().filter { other in
            other.element.subject == own.subject && other.offset != index
                && (other.offset > index || other.element.createdAt > own.createdAt)
        }
        return newer.count >= weather.sessionLimit
    }

    private func judge(_ reason: EndReason?, _ ticket: Ticket, _ family: Family) {
        let isRight =
            switch reason {
            case nil: true
            case .loggedOut: ticket.logOutAsked
            case .providerLogout: noticed.contains(family.person)
            case .sessionLimit: isBeyondLimit(ticket)
            case .grantRevoked: family.death == .byItsUser || family.isRevokedUnseen || family.isReusedUnremembered
            case .refreshLost:
                family.death == .byItsUser || family.mayBeLost(weather.rotation, longestOutage: longestOutage)
            case .subjectChanged: family.strangerFrom != nil
            default: false
            }
        if isRight {
            if reason == .refreshLost || family.isReusedUnremembered { verdict.beyondSaving += 1 }
            return
        }
        say(
            """
            FAULT: the session of grant \(family.number) ended wrongfully: \(reason?.rawValue ?? "") \
            (at the provider: \(family.death.map { "\($0)" } ?? "alive"), mishaps: \(family.mishaps))
            """)
        verdict.wrongfulLogOuts += 1
    }
}
