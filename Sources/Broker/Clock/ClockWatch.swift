import Synchronization

/// Knows the time, and decides whether an act that depends on the time is allowed now (guarantee 3's table of clocks).
///
/// A clock that jumps must not end sessions for good. For example, the clock jumps if a machine starts before its time is
/// set, or if a snapshot is restored. After a jump, the clock is in doubt. A doubt ends by evidence, or after a fixed time
/// (decision 48).
///
/// If the store has a clock of its own, all replicas use that clock's time. The machine's own clock then only shows whether the
/// store's clock is plausible (decision 25).
package final class ClockWatch: Sendable {
    /// Guards the readings of the clocks, and the trust that follows from them.
    private let state: Mutex<ClockState>
    /// The machine's own wall clock, if the broker uses the store's clock instead; otherwise nil.
    private let wall: (@Sendable () -> WallTime)?
    /// Whether, at the last look, the clock was too doubtful to conclude that a session has lapsed.
    ///
    /// Each use of a session reads this without a lock.
    private let doubted = Atomic(false)

    package init() {
        wall = nil
        state = Mutex(ClockState(hasStoreClock: false))
    }

    /// Creates the watch of a process whose store has a clock of its own (`corrected`).
    package init(correcting clock: BrokerClock) {
        wall = clock.now
        state = Mutex(ClockState(hasStoreClock: true))
    }

    /// Whether the store has a clock of its own.
    package var hasStoreClock: Bool { wall != nil }

    /// Returns a clock that gives the store's time instead of its own, once the store's time is known.
    package func corrected(_ clock: BrokerClock) -> BrokerClock {
        BrokerClock(
            now: { [self] in
                let (wall, monotonic) = (clock.now(), clock.monotonic())
                return state.withLock { state in
                    state.note(wall, monotonic)
                    return state.time(at: monotonic)
                }
            }, monotonic: clock.monotonic, sleep: clock.sleep)
    }

    /// Reads both clocks, and then runs a closure on the state.
    private func look<Value>(_ clock: BrokerClock, _ body: (inout ClockState, Duration) -> Value) -> Value {
        let (now, moment) = (wall.map { $0() } ?? clock.now(), clock.monotonic())
        return state.withLock { state in
            state.note(now, moment)
            defer { doubted.store(!state.believesLapses(moment), ordering: .relaxed) }
            return body(&state, moment)
        }
    }

    /// Whether lapses were in doubt at the last look; a running process looks once a second.
    var wasDoubted: Bool { doubted.load(ordering: .relaxed) }

    /// Reads both clocks.
    ///
    /// Later looks are compared with these readings.
    package func look(_ clock: BrokerClock) { look(clock) { _, _ in } }

    /// Returns whether an act may be done now.
    package func allows(_ act: TimedAct, _ clock: BrokerClock) -> Bool {
        look(clock) { state, moment in state.allows(act, at: moment) }
    }

    /// Returns the time for judging lapses.
    ///
    /// For a day after a step of the store's clock, this time is two minutes late.
    package func lapseTime(_ clock: BrokerClock) -> WallTime {
        hasStoreClock ? look(clock) { state, moment in state.lapseTime(at: moment) } : clock.now()
    }

    /// Returns the best present estimate of the time at an earlier moment.
    func time(of past: Duration, _ clock: BrokerClock) -> WallTime {
        look(clock) { state, moment in state.time(of: past, at: moment) }
    }

    /// Returns a time from before the present doubt, when the clock was still right.
    ///
    /// A session whose end is before this time has lapsed.
    func trustedBefore(_ clock: BrokerClock) -> WallTime {
        look(clock) { state, moment in state.trustedBefore ?? state.lapseTime(at: moment) }
    }

    /// Returns whether the machine's clock differs from the store's.
    ///
    /// If so, this replica leaves work that depends on the time to other replicas.
    package func isOff(_ clock: BrokerClock) -> Bool { look(clock) { state, _ in state.isOff } }

    /// The lead of the machine's clock over the store's; nil before the first comparison.
    package var ahead: Duration? { state.withLock { $0.ahead } }

    /// Returns the doubt about the clock, if there is one, and the witnesses that confirm the clock.
    package func standing(_ clock: BrokerClock) -> ClockStanding {
        look(clock) { state, moment in
            ClockStanding(
                doubt: state.doubt(moment), witnesses: state.witnesses(moment), isProven: state.isProven)
        }
    }

    // MARK: Comparisons and evidence

    /// Stores the reading of the store's clock at a moment.
    ///
    /// `error` is the largest error of `moment`.
    package func compared(_ time: WallTime, at moment: Duration, within error: Duration, _ clock: BrokerClock) {
        look(clock) { state, _ in state.compared(time, at: moment, within: error) }
    }

    /// Whether a step of the store's clock has yet to be noted in the store.
    var hasUnnotedStep: Bool { state.withLock { $0.hasUnnotedStep } }
    func stepIsNoted() { state.withLock { $0.stepIsNoted() } }

    /// Notes a step of the store's clock that another process has noted in the store.
    func hear(steppedAt time: WallTime, _ clock: BrokerClock) {
        look(clock) { state, moment in state.hear(steppedAt: time, at: moment) }
    }

    /// Returns whether evidence could still change the trust in the clock.
    package func wantsEvidence(_ clock: BrokerClock) -> Bool { look(clock) { state, moment in state.isOpen(moment) } }

    /// Adds the time of a witness at a moment to the evidence.
    package func hear(_ witness: ClockWitness, saying time: WallTime, at moment: Duration, _ clock: BrokerClock) {
        look(clock) { state, _ in state.hear(witness, saying: time, at: moment) }
    }

    /// Adds the kernel's report about a time service to the evidence.
    package func kernelSays(isSynchronised: Bool, _ clock: BrokerClock) {
        look(clock) { state, moment in state.kernelSays(isSynchronised: isSynchronised, at: moment) }
    }

    /// Adds the store's clock to the evidence, if its server is another machine.
    package func hearStore(isElsewhere: Bool, _ clock: BrokerClock) {
        look(clock) { state, moment in state.hearStore(isElsewhere: isElsewhere, at: moment) }
    }

    // MARK: The store's marks

    /// Compares the clock at the start with the times that the store remembers.
    package func begin(_ clock: BrokerClock, _ remembered: ClockMarks) -> ClockStart {
        look(clock) { state, moment in
            state.begin(lastSeen: remembered.lastSeen, agreement: remembered.agreement, at: moment)
            if let stepped = remembered.storeStepped { state.hear(steppedAt: stepped, at: moment) }
            switch state.doubt(moment) {
            case .behind: return .behind
            case .absent, .jumped, .storeJumped: return .doubted
            case .apart, .uncompared: return .off
            case .uncertain: return .uncertain
            case nil: return .believed
            }
        }
    }

    /// Returns how long the clocks have agreed, for later processes; nil if the clock is trusted, proven right or certainly
    /// wrong.
    func agreement(_ clock: BrokerClock) -> ClockAgreement? {
        look(clock) { state, moment in state.agreement(at: moment) }
    }

    /// Whether evidence has shown in this process that the clock is right.
    ///
    /// If so, the last time that the store has seen may be moved back.
    var isProven: Bool { state.withLock { $0.isProven } }

    func markIs(_ time: WallTime) { state.withLock { $0.markIs(time) } }
}

/// The broker's trust in its clock, as operators see it.
package struct ClockStanding: Sendable, Equatable {
    package let doubt: ClockDoubt?
    package let witnesses: [ClockWitness]
    /// Whether evidence has ended the last doubt.
    package let isProven: Bool
}
