import Synchronization

/// Gives the broker's time, and decides whether an act that depends on the time is allowed now (guarantee 3's table of clocks).
///
/// If a clock jumps, no session may end for good because of the jump. A clock jumps, for example, if a machine starts before
/// its time is set, or if a snapshot is restored. After a jump, the clock is in doubt. The doubt ends as soon as enough
/// evidence confirms the clock, or after a fixed time (decision 48).
///
/// If the store has a clock of its own, all replicas use that clock's time. The machine's own clock then only shows whether the
/// store's clock is plausible (decision 25).
package final class ClockWatch: Sendable {
    /// Guards the readings of the clocks, and how far the broker trusts the clock because of them.
    private let state: Mutex<ClockState>
    /// The machine's own wall clock; nil if the broker uses this clock for its own time, because the store lacks a clock.
    private let wall: (@Sendable () -> WallTime)?
    /// Whether the clock was too doubtful to decide that a session has lapsed, when the clocks were last read.
    ///
    /// Each use of a session reads this value without a lock.
    private let doubted = Atomic(false)

    package init() {
        wall = nil
        state = Mutex(ClockState(hasStoreClock: false))
    }

    /// Creates the watch of a process whose store has a clock of its own; the broker then uses the clock from `corrected`.
    package init(correcting clock: BrokerClock) {
        wall = clock.now
        state = Mutex(ClockState(hasStoreClock: true))
    }

    /// Whether the store has a clock of its own.
    package var hasStoreClock: Bool { wall != nil }

    /// Returns a clock that shows the store's time as soon as the store has reported its time.
    ///
    /// Until then, it shows the time of `clock`.
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

    /// Whether the clock was too doubtful to judge lapses when the clocks were last read; a running process reads them once a
    /// second.
    var wasDoubted: Bool { doubted.load(ordering: .relaxed) }

    /// Reads the wall clock and the monotonic clock.
    ///
    /// If they diverge until a later reading, the clock has jumped.
    package func look(_ clock: BrokerClock) { look(clock) { _, _ in } }

    /// Returns whether an act is allowed now.
    package func allows(_ act: TimedAct, _ clock: BrokerClock) -> Bool {
        look(clock) { state, moment in state.allows(act, at: moment) }
    }

    /// Returns the time for deciding whether a session has lapsed.
    ///
    /// For a day after a step of the store's clock, this time is two minutes late.
    package func lapseTime(_ clock: BrokerClock) -> WallTime {
        hasStoreClock ? look(clock) { state, moment in state.lapseTime(at: moment) } : clock.now()
    }

    /// Returns the best estimate, with the present knowledge, of the time at an earlier moment.
    func time(of past: Duration, _ clock: BrokerClock) -> WallTime {
        look(clock) { state, moment in state.time(of: past, at: moment) }
    }

    /// Returns a time before the present doubt began, when the clock was still right.
    ///
    /// If a session's time limit is before this time, the session has certainly lapsed.
    func trustedBefore(_ clock: BrokerClock) -> WallTime {
        look(clock) { state, moment in state.trustedBefore ?? state.lapseTime(at: moment) }
    }

    /// Returns whether the machine's clock differs from the store's clock by more than a minute.
    ///
    /// If the clocks differ, this replica leaves work that depends on the time to other replicas.
    package func isOff(_ clock: BrokerClock) -> Bool { look(clock) { state, _ in state.isOff } }

    /// The time by which the machine's clock is ahead of the store's clock; nil before the first comparison.
    package var ahead: Duration? { state.withLock { $0.ahead } }

    /// Returns the reason to doubt the clock, if there is one, and the witnesses that confirm the clock.
    package func standing(_ clock: BrokerClock) -> ClockStanding {
        look(clock) { state, moment in
            ClockStanding(
                doubt: state.doubt(moment), witnesses: state.witnesses(moment), isProven: state.isProven)
        }
    }

    // MARK: Comparisons and evidence

    /// Stores a reading of the store's clock.
    ///
    /// `error` is the largest possible error of `moment`, because the store read its clock at some moment during the query.
    package func compared(_ time: WallTime, at moment: Duration, within error: Duration, _ clock: BrokerClock) {
        look(clock) { state, _ in state.compared(time, at: moment, within: error) }
    }

    /// Whether this process has noticed a step of the store's clock that has yet to be recorded in the store.
    var hasUnnotedStep: Bool { state.withLock { $0.hasUnnotedStep } }
    func stepIsNoted() { state.withLock { $0.stepIsNoted() } }

    /// Judges lapses later for a day, because another process has recorded a step of the store's clock at `time`.
    func hear(steppedAt time: WallTime, _ clock: BrokerClock) {
        look(clock) { state, moment in state.hear(steppedAt: time, at: moment) }
    }

    /// Returns whether further evidence could change how far the clock is trusted.
    package func wantsEvidence(_ clock: BrokerClock) -> Bool { look(clock) { state, moment in state.isOpen(moment) } }

    /// Adds the time that a witness reported to the evidence for or against the clock.
    package func hear(_ witness: ClockWitness, saying time: WallTime, at moment: Duration, _ clock: BrokerClock) {
        look(clock) { state, _ in state.hear(witness, saying: time, at: moment) }
    }

    /// Adds the kernel's report about a time service to the evidence.
    package func kernelSays(isSynchronised: Bool, _ clock: BrokerClock) {
        look(clock) { state, moment in state.kernelSays(isSynchronised: isSynchronised, at: moment) }
    }

    /// Adds the store's clock to the evidence.
    ///
    /// The store's clock confirms this machine's clock only if the database server is another machine.
    package func hearStore(isElsewhere: Bool, _ clock: BrokerClock) {
        look(clock) { state, moment in state.hearStore(isElsewhere: isElsewhere, at: moment) }
    }

    // MARK: The store's marks

    /// Compares the clock at the start of the process with the times that the store has recorded.
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

    /// Returns how long ago, during a doubt, a clock last jumped.
    ///
    /// A later process continues from this time.
    ///
    /// Returns nil if the clock is trusted, proven right or certainly wrong.
    func agreement(_ clock: BrokerClock) -> ClockAgreement? {
        look(clock) { state, moment in state.agreement(at: moment) }
    }

    /// Whether evidence has shown in this process that the clock is right.
    ///
    /// The store's mark may be moved back only after such evidence.
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
