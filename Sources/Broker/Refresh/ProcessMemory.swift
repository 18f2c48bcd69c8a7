import Synchronization

/// The short-lived memory of a process: its refreshes underway, how its store stands, who answered lately, who signs in
/// just now, the proofs that were taken.
final class ProcessMemory: Sendable {
    let flights = RefreshFlights()
    let store: StoreWatch
    let answers = TokenAnswers()
    let signIns = SignInsUnderWay()

    let audiences = AudienceMemory()
    let forced = ForcedRefreshes()
    let places = ProviderPlaces()
    let proofs = TakenProofs()
    let presences = PresenceUses()
    let uses = KeptUses()
    /// The scope of its nonces: its own where it alone remembers which proofs were taken, so that after a restart no proof of
    /// before is taken a second time.
    let nonceScope: NonceScope

    /// Creates the memory of a process that begins now.
    init(startedAt moment: Duration, nonceScope: String) {
        store = StoreWatch(startedAt: moment)
        self.nonceScope = NonceScope(nonceScope)
    }
}

/// The beginning of the last call that each client's token endpoint granted to this process.
///
/// Refusals that may mean a dead grant end a session only where others were granted something meanwhile (guarantee 2): after the
/// first of them, and before the last was sent. A call that began before the first refusal says nothing of the time since, however
/// late its answer comes.
final class TokenAnswers: Sendable {
    private struct Key: Hashable {
        let provider: ProviderName
        let client: ClientName
    }

    /// Guards the moments; bounded by the configured clients.
    private let moments = Mutex<[Key: Duration]>([:])

    func granted(_ provider: ProviderName, _ client: ClientName, begun moment: Duration) {
        moments.withLock { moments in
            let key = Key(provider: provider, client: client)
            moments[key] = max(moment, moments[key] ?? moment)
        }
    }

    /// Returns whether a call was granted that began after a moment.
    func hasGranted(_ provider: ProviderName, _ client: ClientName, since moment: Duration) -> Bool {
        moments.withLock { $0[Key(provider: provider, client: client)].map { $0 > moment } ?? false }
    }
}

/// The state of the store as this process sees it: since when nothing failed, and how many results in hand it did not take yet.
final class StoreWatch: Sendable {
    private struct State {
        var standsSince: Duration
        /// The time of its last answer to the question that is asked for this alone; nil where nobody asks.
        var answeredAt: Duration?
        /// Whether a call failed since that answer.
        var hasFailed = false
        /// The last absence of the store: its first and its last failure, or silence; nil where there was none.
        var absence: (begun: Duration, ended: Duration)?
        /// Pairs of refreshes that a store refused.
        var unwritten = 0
        /// The number of pairs among them that waited when the store took something else: it is not the store that fails those.
        var passedOver = 0
        /// The time at which a claim was let through although pairs waited.
        var triedAt = Duration.zero
        /// Results of exchanges on their way into the store.
        var results = 0
    }

    /// Lapsed claims are taken over only when the store has stood for so long: who holds a pair comes first.
    ///
    /// Longer than another replica takes from the store's return until it has written: it waits for a silent connection
    /// for 6 s, for one that is not made for 3 s, 2 s until the next is tried, and 1 s until the pair is tried again.
    static let calm = Duration.seconds(15)
    /// A store that is asked and has not answered for so long does not stand.
    static let silence = Duration.seconds(10)
    /// With so many results in hand nothing new is begun.
    static let capacity = 1_000

    /// While pairs wait, a claim is let through so often, to see whether the store takes it.
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

    /// Notes that the store was away until a moment: since its last answer, where it is asked, or since an earlier failure.
    private static func noteAbsence(since answeredAt: Duration?, at moment: Duration, in state: inout State) {
        if let absence = state.absence, moment - absence.ended < calm {
            state.absence = (absence.begun, max(absence.ended, moment))
        } else {
            state.absence = (answeredAt ?? moment, moment)
        }
    }

    /// Returns the lapsed claims, of a lifetime, that are left to their owners at a moment.
    func spared(_ lifetime: Duration, at moment: Duration) -> SparedClaims {
        guard let absence = state.withLock({ $0.absence }) else { return .none }
        return SparedClaims(
            lifetime: lifetime, awaySince: moment - absence.begun, backFor: moment - absence.ended)
    }

    /// Notes an answer to the question that is asked every few seconds, whether there is work or not: after a failure,
    /// or a silence, the store is back from here on.
    func answered(at moment: Duration) {
        state.withLock { state in
            let wasHeard = state.answeredAt.map { moment - $0 <= Self.silence } ?? false
            if state.hasFailed || !wasHeard { state.standsSince = max(state.standsSince, moment) }
            // Before its first answer nobody has seen it away.
            if state.hasFailed || (!wasHeard && state.answeredAt != nil) {
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

    /// Notes that a pair is in hand that the store did not take.
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

    /// Notes that the store took a claim: what waits does so for its own row's sake, which somebody holds.
    func took() { state.withLock { $0.passedOver = $0.unwritten } }

    /// Notes that an exchange's result is on its way into the store.
    func keepResult() { state.withLock { $0.results += 1 } }

    func wroteResult() { state.withLock { $0.results -= 1 } }

    /// Returns whether a refresh may be claimed: pairs in hand are written first, unless the store has taken something
    /// else since, which one claim a second finds out.
    func mayClaim(at moment: Duration) -> Bool {
        state.withLock { state in
            if state.unwritten <= state.passedOver { return true }
            guard moment - state.triedAt >= Self.trial else { return false }
            state.triedAt = moment
            return true
        }
    }

    /// Whether so many wait that nothing new may begin.
    var isFull: Bool { state.withLock { $0.unwritten + $0.results >= Self.capacity } }
}
