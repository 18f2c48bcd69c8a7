import Broker

/// The promises that the broker can break without an effect that a user notices at once.
///
/// - The owner of a claim releases it.
/// - A process has at most one flight for a session, and all provider calls of a claim have one deadline.
/// - An access token is refreshed only if it is due, or if a caller wants a newer one.
/// - Every caller gets an answer, and every listener gets its notice in time.
final class Rules: @unchecked Sendable {
    private struct Claim {
        let process: SimulatedProcess
        let session: Digest
        /// Whether the owner has released the claim, or has written the refreshed row or ended the session.
        var isTouched = false
    }

    /// One session, as one process knows it.
    private struct Place: Hashable {
        let process: Int
        let session: Digest

        init(_ process: SimulatedProcess, _ session: Digest) {
            self.process = process.id
            self.session = session
        }
    }

    /// A version of a session or of its tokens, and the time when a process learned of it.
    private struct Version {
        let number: Int64
        let at: Int
    }

    unowned let world: Simulation
    let refusedTargets = RefusedTargets()
    private var scheduler: Scheduler { world.scheduler }

    private var claims: [ClaimID: Claim] = [:]
    private var claimAsked: [Place: Int] = [:]
    /// All claims that processes asked for, whether they were granted or not.
    private var askedFor: Set<ClaimID> = []
    private var steps: [Place: Int] = [:]
    private var wanted: [Digest: Set<Int64>] = [:]
    private var known: [Place: [Version]] = [:]
    /// The versions of sessions in the notices that each process has received.
    private var notified: [Place: [Version]] = [:]
    /// The access tokens that a process handed out although they are bound to another certificate than the process shows.
    ///
    /// Each has the time when it was first handed out.
    private var unfit: [Place: [String: Int]] = [:]
    private var waiting: [Place: Set<Int>] = [:]
    private var nextWaiter = 0

    /// The longest time until the owner of a claim renews, releases or uses the claim. (The provider calls of a claim end
    /// within 15 s.)
    private static let claimPatience = 40_000
    /// The longest time for all provider calls of one claim together.
    private static let callBudget = 15_000
    /// The longest time until a caller is answered while a new token pair cannot be written.
    private static let earlyAnswer = 1_500
    /// The longest time that a caller's own store call waits if the store is away.
    private static let storePatience = 5_000

    init(_ world: Simulation) { self.world = world }

    func fault(_ text: String) {
        world.say("FAULT: \(text)")
        world.verdict.rulesBroken += 1
    }

    // MARK: Claims

    /// Notes that a process asks for a claim.
    func asks(_ claim: RefreshClaim, by process: SimulatedProcess) {
        defer { askedFor.insert(claim.name) }
        if claims[claim.name] != nil {
            claims[claim.name]?.isTouched = true
        } else {
            claimAsked[Place(process, claim.tokenDigest)] = scheduler.now
        }
    }

    /// Notes that the store has granted a claim, even if the process never receives this answer.
    func granted(_ claim: RefreshClaim, of row: SessionRow?, to process: SimulatedProcess) {
        guard claims[claim.name] == nil else { return }
        claims[claim.name] = Claim(process: process, session: claim.tokenDigest)
        if let row, !isOfOldCertificate(row, process) { checkIsWanted(claim, row) }
        let begun = scheduler.now
        scheduler.after(Self.claimPatience) { [self] in
            guard let held = claims[claim.name], !held.isTouched, process.isUndisturbed(since: begun) else { return }
            fault(
                "process \(process.number) left its refresh claim of token version \(claim.tokenVersion) unused and unreleased"
            )
        }
    }

    /// Notes that a process releases a claim, writes the refreshed row, or ends the session.
    func touches(_ session: Digest, by process: SimulatedProcess) {
        for (name, claim) in claims where claim.process === process && claim.session == session {
            claims[name]?.isTouched = true
        }
    }

    /// Checks the deadline of a provider call that sends a refresh token.
    func sends(_ session: Digest, by process: SimulatedProcess, deadline: Duration) {
        guard let asked = claimAsked[Place(process, session)] else { return }
        let rest = Int((deadline - process.monotonic).wholeMilliseconds)
        if scheduler.now + rest > asked + Self.callBudget {
            fault("a token call has a deadline after the end of its claim's time for calls")
        }
    }

    /// Returns the time when a process asked for its last claim of a session.
    func claimedAt(_ process: SimulatedProcess, _ session: Digest) -> Int? { claimAsked[Place(process, session)] }

    // MARK: Flights

    /// Notes that a process begins a step of a refresh.
    ///
    /// A process has at most one flight for a session, so it may have one such step at a time.
    func begins(_ session: Digest, in process: SimulatedProcess) {
        steps[Place(process, session), default: 0] += 1
        if steps[Place(process, session), default: 0] > 1 {
            fault("process \(process.number) has two flights of one session at the same time")
        }
    }

    func ends(_ session: Digest, in process: SimulatedProcess) { steps[Place(process, session), default: 1] -= 1 }

    /// Whether no process has asked for this claim before. (A claim from an earlier flight may be released during a later one.)
    func isNew(_ claim: RefreshClaim) -> Bool { claims[claim.name] == nil && !askedFor.contains(claim.name) }

    // MARK: Versions that are wanted or known

    /// Notes that a caller asks for a token newer than `version`.
    func wants(newerThan version: Int64, of session: Digest) { wanted[session, default: []].insert(version) }

    /// Notes that a process hands out a token that is bound to another certificate than the process shows.
    ///
    /// Returns whether the process had already handed out this token before the call.
    func isRepeated(_ token: AccessToken, of session: Digest, by process: SimulatedProcess, askedAt: Int) -> Bool {
        let (place, text) = (Place(process, session), token.token.reveal())
        let first = unfit[place]?[text] ?? scheduler.now
        unfit[place, default: [:]][text] = first
        return first < askedAt
    }

    /// Whether a session's access token may be useless to a process, because the token is bound to another certificate.
    private func isOfOldCertificate(_ row: SessionRow, _ process: SimulatedProcess) -> Bool {
        guard world.weather.isCertified else { return false }
        let shown = SimulatedProcess.name(ofCertificate: process.certificate)
        return world.certificate(row.tokens, of: row.tokenDigest) != shown
            || process.renewedAt > scheduler.now - Self.claimPatience
    }

    private func checkIsWanted(_ claim: RefreshClaim, _ row: SessionRow) {
        guard world.weather.wallJumps + world.weather.wallLeaps + world.weather.storeJumps == 0,
            world.weather.targets == 0,
            let end = row.tokenExpiresAt,
            !wanted[claim.tokenDigest, default: []].contains(claim.tokenVersion)
        else { return }
        let due = Duration.milliseconds(world.weather.accessTokenLife * 100 + 1_000)
        // The process's clock may be behind. So the refresh is right if the token is due either by the process's clock or by
        // the true time.
        guard end.since(max(claim.now, world.wallTime)) > due else { return }
        fault(
            "token version \(claim.tokenVersion) is refreshed before it is due, and without a request for a newer token"
        )
    }

    /// Notes that the store has confirmed to a process that it stored a token version.
    func knows(_ process: SimulatedProcess, _ session: Digest, version: Int64) {
        known[Place(process, session), default: []].append(Version(number: version, at: scheduler.now))
    }

    /// Reports a fault: a caller asked for a token newer than `version`, and got this version or an older one.
    func notNewer(_ version: Int64) {
        fault("a caller that asked for a newer token than version \(version) got an older one or the same")
    }

    /// Judges an access token that an app got: its version must be at least the newest that the process had stored before.
    func handedOut(_ token: AccessToken, of session: Digest, by process: SimulatedProcess, askedAt: Int) {
        let stored = known[Place(process, session), default: []].filter { $0.at < askedAt }.map(\.number).max() ?? 0
        if token.version < stored {
            fault("token version \(token.version) was handed out, although the process has stored version \(stored)")
        }
    }

    // MARK: Changes of sessions

    /// Notes that a process has received and processed the notice that a session has a new version.
    func heard(of version: Int64, of session: Digest, in process: SimulatedProcess) {
        notified[Place(process, session), default: []].append(Version(number: version, at: scheduler.now))
    }

    /// Judges the session that a process used for a call.
    ///
    /// The session's version must be as new as in the last notice that arrived before the call.
    func served(_ row: SessionRow, by process: SimulatedProcess, askedAt: Int) {
        let told =
            notified[Place(process, row.tokenDigest), default: []].filter { $0.at < askedAt }.map(\.number).max() ?? 0
        if row.version < told {
            fault("process \(process.number) served session version \(row.version) after the notice of version \(told)")
        }
    }

    // MARK: Answers

    /// Notes that a caller begins to wait for a flight.
    ///
    /// Returns a closure, which the caller calls when it no longer waits.
    func waits(_ process: SimulatedProcess, _ session: Digest) -> () -> Void {
        nextWaiter += 1
        let (place, id) = (Place(process, session), nextWaiter)
        waiting[place, default: []].insert(id)
        return { [weak self] in _ = self?.waiting[place]?.remove(id) }
    }

    /// Called when the store could not write a new token pair.
    ///
    /// Checks that the callers that wait for this pair are answered early.
    func notWritten(_ session: Digest, by process: SimulatedProcess) {
        let place = Place(process, session)
        let before = waiting[place, default: []]
        let begun = scheduler.now
        guard !before.isEmpty else { return }
        // A caller may also wait for its own call to the store, in addition to its wait for the token pair.
        let patience = Self.earlyAnswer + (process.storeAwayFor > 0 ? Self.storePatience : 0)
        scheduler.after(patience) { [self] in
            guard process.isUndisturbed(since: begun), !before.isDisjoint(with: waiting[place, default: []]) else {
                return
            }
            fault("a caller got no answer while its token pair could not be written")
        }
    }

    /// Reports a caller that got no answer within the longest time that an answer may take.
    func unanswered(_ process: SimulatedProcess, since moment: Int) {
        if process.isUndisturbed(since: moment) { fault("process \(process.number) left a caller without an answer") }
    }

    /// Checks that the process repeats a refresh after its answer was lost, if the claim's time was long enough.
    ///
    /// If the session has ended meanwhile, the claim cannot be renewed for this retry.
    func lost(_ call: TokenCall, token: Int, confirmed: @escaping () -> Bool) {
        let begun = scheduler.now
        scheduler.after(7_000) { [self] in
            guard call.process.isUndisturbed(since: begun), call.process.storeHeldSince(begun),
                call.family?.isSessionEnded != true, call.family?.replacedAt == nil, !confirmed()
            else { return }
            fault(
                "process \(call.process.number) did not repeat the call with refresh token \(token) after a lost answer"
            )
        }
    }

    // MARK: Proofs

    /// Checks that a process repeats a call at once if the provider refused its nonce, with the nonce from the refusal.
    func challenged(_ call: TokenCall, repeated: @escaping () -> Bool) {
        let begun = scheduler.now
        scheduler.after(100) { [self] in
            guard call.process.isUndisturbed(since: begun), !repeated() else { return }
            fault(
                "process \(call.process.number) did not repeat a refused call with the required \(call.given ?? "nonce")"
            )
        }
    }

    /// Checks that one call is sent at most twice because of a refused nonce.
    func proves(sending number: Int) {
        if number > 2 { fault("one call was sent \(number) times because of its nonce") }
    }

    // MARK: Endings

    /// Checks that the listeners of a session are notified after the session ended in the store.
    ///
    /// The process that ended the sessions notifies its own listeners, too. If the store's answer was lost, this process does
    /// not know which sessions it ended, so its own listeners need not be notified.
    func ended(_ sessions: [Digest], by ender: SimulatedProcess, listeners: [SessionListener]) {
        let begun = scheduler.now
        let affected = listeners.filter { sessions.contains($0.session) && !$0.hasHeard }
        guard !affected.isEmpty else { return }
        scheduler.after(3_000) { [self] in
            for listener in affected where !listener.hasHeard && listener.isHeld {
                let process = listener.process
                let knows = process === ender ? process.storeHeldSince(begun) : process.hasHeard(since: begun)
                guard process.isUndisturbed(since: begun), knows else { continue }
                fault("a listener at process \(listener.process.number) was not notified of its session's end")
            }
        }
    }
}
