import Synchronization

/// The short-lived memory of a process: refreshes and sign-ins in progress, the store's state, the latest granted token calls,
/// and the accepted proofs.
final class ProcessMemory: Sendable {
    let flights = RefreshFlights()
    let store: StoreWatch
    let answers = TokenAnswers()
    let signIns = SignInsUnderWay()
    let exchanges = ExchangesUnderWay()
    let imports = ImportRoom()
    let importGrants = ImportGrants()
    let legacy = LegacyRoom()

    let targets = TargetMemory()
    let forced = ForcedRefreshes()
    let places = ProviderPlaces()
    let proofs = TakenProofs()
    let presences = PresenceUses()
    let uses = KeptUses()
    /// The scope of the nonces that this process issues.
    ///
    /// If only the process itself remembers which proofs were accepted, each process has another scope. A restart then makes all
    /// older proofs useless, because their nonces belong to the former scope.
    let nonceScope: NonceScope

    /// Creates the memory of a process that begins now.
    init(startedAt moment: Duration, nonceScope: String) {
        store = StoreWatch(startedAt: moment)
        self.nonceScope = NonceScope(nonceScope)
    }
}

/// For each client, the provider's last answers to this process: when the last granted and the last refused token call began.
///
/// Refusals that may mean a dead grant end a session only if the provider granted a token call of the same client meanwhile
/// (guarantee 2). The granted call has to begin after the first refusal, and no call that began later may have been refused
/// like this. It also has to end before the last refused call was sent.
///
/// A call that began before the first refusal proves nothing about the time since then, even if its answer arrives late. A grant
/// that was followed by refusals proves nothing either, because the provider may have failed since.
final class TokenAnswers: Sendable {
    private struct Key: Hashable {
        let provider: ProviderName
        let client: ClientName
    }

    private struct Moments {
        var granted: Duration?
        var refused: Duration?
        var refusedImport: Duration?
    }

    /// Guards the moments; there are at most three for each configured client.
    private let moments = Mutex<[Key: Moments]>([:])

    func granted(_ provider: ProviderName, _ client: ClientName, begun moment: Duration) {
        change(provider, client) { $0.granted = max(moment, $0.granted ?? moment) }
    }

    /// Notes a refusal that may mean a dead grant.
    func refused(_ provider: ProviderName, _ client: ClientName, begun moment: Duration) {
        change(provider, client) { $0.refused = max(moment, $0.refused ?? moment) }
    }

    /// Notes such a refusal of an import.
    ///
    /// A stranger's import of an invented token is refused at any time. So this refusal is ignored for the sessions' refreshes.
    func refusedImport(_ provider: ProviderName, _ client: ClientName, begun moment: Duration) {
        change(provider, client) { $0.refusedImport = max(moment, $0.refusedImport ?? moment) }
    }

    /// Returns whether the provider granted a token call of the client that began after `moment`, and no later call was refused.
    func hasGranted(
        _ provider: ProviderName, _ client: ClientName, since moment: Duration, forImport isImport: Bool = false
    ) -> Bool {
        moments.withLock { moments in
            guard let known = moments[Key(provider: provider, client: client)], let granted = known.granted else {
                return false
            }
            if isImport, let refused = known.refusedImport, granted < refused { return false }
            return granted > moment && granted >= known.refused ?? granted
        }
    }

    private func change(_ provider: ProviderName, _ client: ClientName, _ change: (inout Moments) -> Void) {
        moments.withLock { change(&$0[Key(provider: provider, client: client), default: Moments()]) }
    }
}

/// The state of the store as this process sees it: its last failure, its absences, and the results that are still unwritten.
final class StoreWatch: Sendable {
    private struct State {
        var standsSince: Duration
        /// The time of the store's last answer to the regular poll; nil before the first answer, and in a process that sends no
        /// polls.
        var answeredAt: Duration?
        /// Whether a call to the store has failed since the last answer to the poll.
        var hasFailed = false
        /// The store's last absence, from its first failure or silence to the last; nil before the first absence.
        var absence: (begun: Duration, ended: Duration)?
        /// The number of refreshed token pairs that the store has yet to accept.
        var unwritten = 0
        /// The number of unwritten pairs for which another write to the store succeeded meanwhile.
        ///
        /// These pairs failed although the store was available.
        var passedOver = 0
        /// The moment of the last trial claim, or of a later failure to write a pair.
        var triedAt = Duration.zero
        /// The number of exchange results that are being written to the store.
        var results = 0
    }

    /// The time for which the store must have worked before lapsed claims may be taken over.
    ///
    /// Within this time, an owner that has a new token pair can write it.
    ///
    /// Another replica needs at most 12 s from the store's return until it has written its pair. It may wait 6 s for a silent
    /// connection and 3 s for a connection that fails. It then waits 2 s until the next connection is tried, and 1 s until the
    /// pair is tried again.
    static let calm = Duration.seconds(15)
    /// The longest time that a store may leave the polls of this process unanswered.
    ///
    /// After a longer time, the store counts as away.
    static let silence = Duration.seconds(10)
    /// The assumed length of the store's absence if the store was away when the process began.
    ///
    /// No exchange is older than a day.
    private static let unknownAbsence = Duration.seconds(86_400)
    /// The number of unwritten results at which new work is refused.
    static let capacity = 1_000

    /// The interval of trial claims while token pairs are unwritten.
    ///
    /// A trial claim tests whether the store accepts claims.
    static let trial = Duration.seconds(1)

    /// Guards the figures.
    private let state: Mutex<State>

    init(startedAt moment: Duration) { state = Mutex(State(standsSince: moment)) }

    func failed(at moment: Duration) {
        state.withLock { state in
            state.standsSince = max(state.standsSince, moment)
            state.hasFailed = true
            Self.noteAbsence(since: state.answeredAt, at: moment, in: &state)
        }
    }

    /// Notes that the store was away until a moment.
    ///
    /// The absence begins with the last answer to a poll; if there are no polls, it begins with the failure. Failures less than
    /// `calm` apart are one absence.
    private static func noteAbsence(since answeredAt: Duration?, at moment: Duration, in state: inout State) {
        if let absence = state.absence, moment - absence.ended < calm {
            state.absence = (absence.begun, max(absence.ended, moment))
        } else {
            state.absence = (answeredAt ?? moment, moment)
        }
    }

    /// Returns the lapsed claims that only their owners may continue; `lifetime` is the lifetime of a claim.
    func spared(_ lifetime: Duration, at moment: Duration) -> SparedClaims {
        let last = state.withLock { state in
            var seen = state
            // The last poll of the store was long ago, because this process was suspended. So count that time as an absence of
            // the store.
            if let answeredAt = state.answeredAt, moment - answeredAt > Self.silence {
                Self.noteAbsence(since: answeredAt, at: moment, in: &seen)
            }
            return seen.absence
        }
        guard let absence = last else { return .none }
        return SparedClaims(
            lifetime: lifetime, awaySince: moment - absence.begun, backFor: moment - absence.ended)
    }

    /// Notes an answer to the poll, which is sent every few seconds even if the process is idle.
    ///
    /// If the store had failed or was silent before, it counts as available again from this moment on.
    func answered(at moment: Duration) {
        state.withLock { state in
            let wasHeard = state.answeredAt.map { moment - $0 <= Self.silence } ?? false
            if state.hasFailed || !wasHeard { state.standsSince = max(state.standsSince, moment) }
            if state.hasFailed, state.answeredAt == nil {
                // The process began while the store was away, so the outage may be older than the process.
                state.absence = (moment - Self.unknownAbsence, moment)
            } else if state.hasFailed || (!wasHeard && state.answeredAt != nil) {
                Self.noteAbsence(since: state.answeredAt, at: moment, in: &state)
            }
            state.hasFailed = false
            state.answeredAt = moment
        }
    }

    /// Returns whether lapsed claims may be taken over.
    func isCalm(at moment: Duration) -> Bool {
        state.withLock { state in
            if let answeredAt = state.answeredAt, state.hasFailed || moment - answeredAt > Self.silence { return false }
            return moment - state.standsSince >= Self.calm
        }
    }

    /// Notes that the store failed to write a token pair.
    func keep(at moment: Duration) {
        state.withLock { state in
            state.unwritten += 1
            state.triedAt = moment
        }
    }

    func wrote() {
        state.withLock { state in
            state.unwritten -= 1
            state.passedOver = min(state.passedOver, state.unwritten)
        }
    }

    /// Notes that a claim in the store succeeded, so the store works.
    ///
    /// The pairs that are still unwritten then wait only for their own rows, which other transactions have locked.
    func took() { state.withLock { $0.passedOver = $0.unwritten } }

    /// Notes that an exchange's result is being written to the store.
    func keepResult() { state.withLock { $0.results += 1 } }

    func wroteResult() { state.withLock { $0.results -= 1 } }

    /// Returns whether a refresh may be claimed.
    ///
    /// While a refreshed pair is unwritten, only one trial claim a second is allowed. After a trial claim has succeeded, the
    /// store works, so the unwritten pairs no longer prevent claims.
    func mayClaim(at moment: Duration) -> Bool {
        state.withLock { state in
            if state.unwritten <= state.passedOver { return true }
            guard moment - state.triedAt >= Self.trial else { return false }
            state.triedAt = moment
            return true
        }
    }

    /// Whether so many results are unwritten that new work is refused.
    var isFull: Bool { state.withLock { $0.unwritten + $0.results >= Self.capacity } }
}
