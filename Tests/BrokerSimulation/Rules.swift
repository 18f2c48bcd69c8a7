import Broker

/// The promises that no user sees broken at once: who claims gives back, one flight for a session in a process, one
/// deadline for a claim, nothing refreshed that nobody wants newer, nobody left without an answer, nobody told late.
final class Rules: @unchecked Sendable {
    private struct Claim {
        let process: SimulatedProcess
        let session: Digest
        /// Whether its owner has come back to it.
        var isTouched = false
    }

    /// A session in a process.
    private struct Place: Hashable {
        let process: ObjectIdentifier
        let session: Digest

        init(_ process: SimulatedProcess, _ session: Digest) {
            self.process = ObjectIdentifier(process)
            self.session = session
        }
    }

    /// A version of a session's tokens, and since when it was known.
    private struct Version {
        let number: Int64
        let at: Int
    }

    unowned let world: Simulation
    let refusedTargets = RefusedTargets()
    private var scheduler: Scheduler { world.scheduler }

    private var claims: [ClaimID: Claim] = [:]
    private var claimAsked: [Place: Int] = [:]
    /// The claims that were asked for, granted or not.
    private var askedFor: Set<ClaimID> = []
    private var steps: [Place: Int] = [:]
    private var wanted: [Digest: Set<Int64>] = [:]
    private var known: [Place: [Version]] = [:]
    /// The versions of sessions that processes were notified of.
    private var notified: [Place: [Version]] = [:]
    private var waiting: [Place: Set<Int>] = [:]
    private var nextWaiter = 0

    /// After so long an owner has come back to its claim: the calls of a claim end within 15 s.
    private static let claimPatience = 40_000
    /// All calls of one claim end within this.
    private static let callBudget = 15_000
    /// The time by which a caller that waits for a pair that cannot be written is answered.
    private static let earlyAnswer = 1_500

    init(_ world: Simulation) { self.world = world }

    func fault(_ text: String) {
        world.say("FAULT: \(text)")
        world.verdict.rulesBroken += 1
    }

    // MARK: Claims

    /// Hears that a process asks for a claim.
    func asks(_ claim: RefreshClaim, by process: SimulatedProcess) {
        defer { askedFor.insert(claim.name) }
        if claims[claim.name] != nil {
            claims[claim.name]?.isTouched = true
        } else {
            claimAsked[Place(process, claim.tokenDigest)] = scheduler.now
        }
    }

    /// Hears that a claim was granted, heard of or not.
    func granted(_ claim: RefreshClaim, of row: SessionRow?, to process: SimulatedProcess) {
        guard claims[claim.name] == nil else { return }
        claims[claim.name] = Claim(process: process, session: claim.tokenDigest)
        if let row { checkIsWanted(claim, row) }
        let begun = scheduler.now
        scheduler.after(Self.claimPatience) { [self] in
            guard let held = claims[claim.name], !held.isTouched, process.isUndisturbed(since: begun) else { return }
            fault("process \(process.number) forgot its claim of version \(claim.tokenVersion)")
        }
    }

    /// Hears that a process gives a claim back, or writes or ends what it is for.
    func touches(_ session: Digest, by process: SimulatedProcess) {
        for (name, claim) in claims where claim.process === process && claim.session == session {
            claims[name]?.isTouched = true
        }
    }

    /// Hears with which deadline a refresh token is sent.
    func sends(_ session: Digest, by process: SimulatedProcess, deadline: Duration) {
        guard let asked = claimAsked[Place(process, session)] else { return }
        let rest = Int((deadline - process.monotonic).wholeMilliseconds)
        if scheduler.now + rest > asked + Self.callBudget { fault("a call may outlive its claim's deadline") }
    }

    /// Returns when a process asked for its last claim of a session.
    func claimedAt(_ process: SimulatedProcess, _ session: Digest) -> Int? { claimAsked[Place(process, session)] }

    // MARK: Flights

    /// Hears that a process begins a step of a refresh that one flight makes one after the other.
    func begins(_ session: Digest, in process: SimulatedProcess) {
        steps[Place(process, session), default: 0] += 1
        if steps[Place(process, session), default: 0] > 1 { fault("two flights of process \(process.number)") }
    }

    func ends(_ session: Digest, in process: SimulatedProcess) { steps[Place(process, session), default: 1] -= 1 }

    /// Whether a claim's name is new: one that is asked for again may be given back beside another flight.
    func isNew(_ claim: RefreshClaim) -> Bool { claims[claim.name] == nil && !askedFor.contains(claim.name) }

    // MARK: What is wanted, and what is known

    /// Hears that somebody asks for a newer token than this version.
    func wants(newerThan version: Int64, of session: Digest) { wanted[session, default: []].insert(version) }

    private func checkIsWanted(_ claim: RefreshClaim, _ row: SessionRow) {
        guard world.weather.wallJumps + world.weather.wallLeaps + world.weather.storeJumps == 0,
            world.weather.targets == 0,
            let end = row.tokenExpiresAt,
            !wanted[claim.tokenDigest, default: []].contains(claim.tokenVersion)
        else { return }
        let due = Duration.milliseconds(world.weather.accessTokenLife * 100 + 1_000)
        // The clock of the process may be behind: a token that has run out is refreshed.
        guard end.since(max(claim.now, world.wallTime)) > due else { return }
        fault("version \(claim.tokenVersion) is refreshed, and nobody wants it")
    }

    /// Hears that a process was told that it has stored a version.
    func knows(_ process: SimulatedProcess, _ session: Digest, version: Int64) {
        known[Place(process, session), default: []].append(Version(number: version, at: scheduler.now))
    }

    /// Hears that somebody who asked for a newer token than a version got that one.
    func notNewer(_ version: Int64) { fault("a newer token than version \(version) was asked for, and not given") }

    /// Hears that an app was given an access token.
    func handedOut(_ token: AccessToken, of session: Digest, by process: SimulatedProcess, askedAt: Int) {
        let stored = known[Place(process, session), default: []].filter { $0.at < askedAt }.map(\.number).max() ?? 0
        if token.version < stored { fault("version \(token.version) was handed out, \(stored) is stored") }
    }

    // MARK: Changes of sessions

    /// Hears that a process has acted on the notice that a session has this version now.
    func heard(of version: Int64, of session: Digest, in process: SimulatedProcess) {
        notified[Place(process, session), default: []].append(Version(number: version, at: scheduler.now))
    }

    /// Hears that a process served a session to a call that it got at a moment: never an older one than it was notified of.
    func served(_ row: SessionRow, by process: SimulatedProcess, askedAt: Int) {
        let told =
            notified[Place(process, row.tokenDigest), default: []].filter { $0.at < askedAt }.map(\.number).max() ?? 0
        if row.version < told { fault("process \(process.number) served state \(row.version), \(told) was told") }
    }

    // MARK: Answers

    /// Notes that a caller waits for a flight; returns how to note that it waits no more.
    func waits(_ process: SimulatedProcess, _ session: Digest) -> () -> Void {
        nextWaiter += 1
        let (place, id) = (Place(process, session), nextWaiter)
        waiting[place, default: []].insert(id)
        return { [weak self] in _ = self?.waiting[place]?.remove(id) }
    }

    /// Hears that a pair was not taken by the store: those who wait are to hear of it.
    func notWritten(_ session: Digest, by process: SimulatedProcess) {
        let place = Place(process, session)
        let before = waiting[place, default: []]
        let begun = scheduler.now
        guard !before.isEmpty else { return }
        scheduler.after(Self.earlyAnswer) { [self] in
            guard process.isUndisturbed(since: begun), !before.isDisjoint(with: waiting[place, default: []]) else {
                return
            }
            fault("who waits for a pair that cannot be written was not answered")
        }
    }

    /// Hears that somebody hung up who would have waited for as long as anything may take.
    func unanswered(_ process: SimulatedProcess, since moment: Int) {
        if process.isUndisturbed(since: moment) { fault("process \(process.number) left a caller without an answer") }
    }

    /// Hears that a call's answer was lost while there was time for the one retry that tells what became of it.
    ///
    /// A session that has ended meanwhile has no claim that could be renewed for it.
    func lost(_ call: TokenCall, token: Int, confirmed: @escaping () -> Bool) {
        let begun = scheduler.now
        scheduler.after(7_000) { [self] in
            guard call.process.isUndisturbed(since: begun), call.process.storeHeldSince(begun),
                call.family?.isSessionEnded != true, call.family?.replacedAt == nil, !confirmed()
            else { return }
            fault("process \(call.process.number) made no confirming call for token \(token)")
        }
    }

    // MARK: Proofs

    /// Hears that a call was refused for its nonce, and its process told of another: it makes it anew at once, and once.
    func challenged(_ call: TokenCall, repeated: @escaping () -> Bool) {
        let begun = scheduler.now
        scheduler.after(100) { [self] in
            guard call.process.isUndisturbed(since: begun), !repeated() else { return }
            fault("process \(call.process.number) made no call with \(call.given ?? "the nonce") that it was told")
        }
    }

    /// Hears of a call with a proof.
    func proves(sending number: Int) {
        if number > 2 { fault("a call is sent \(number) times for its nonce") }
    }

    // MARK: Endings

    /// Hears that sessions ended in the store.
    ///
    /// Who ended them tells its own listeners, unless that answer was lost: then it does not know whom it ended.
    func ended(_ sessions: [Digest], by ender: SimulatedProcess, listeners: [SessionListener]) {
        let begun = scheduler.now
        let affected = listeners.filter { sessions.contains($0.session) && !$0.hasHeard }
        guard !affected.isEmpty else { return }
        scheduler.after(3_000) { [self] in
            for listener in affected where !listener.hasHeard && listener.isHeld {
                let process = listener.process
                let knows = process === ender ? process.storeHeldSince(begun) : process.hasHeard(since: begun)
                guard process.isUndisturbed(since: begun), knows else { continue }
                fault("a listener of process \(listener.process.number) was not told of the end")
            }
        }
    }
}
