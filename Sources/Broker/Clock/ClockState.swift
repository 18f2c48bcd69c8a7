/// A reading of a clock, from which the monotonic clock gives later times.
struct ClockReading: Sendable {
    let time: WallTime
    let moment: Duration

    init(_ time: WallTime, _ moment: Duration) {
        self.time = time
        self.moment = moment
    }

    /// Returns the time of this clock at another moment.
    func time(at moment: Duration) -> WallTime { time.advanced(by: moment - self.moment) }
}

/// The readings of a process's clocks, and the trust that follows from them.
///
/// The state is a value without a lock; `ClockWatch` guards it.
struct ClockState: Sendable {
    /// The greatest difference between two clocks that agree.
    static let tolerance = Duration.seconds(60)
    private static let doubtAfterJump = Duration.seconds(600)
    /// The longest absence of a broker after which its clock is trusted at the next start.
    ///
    /// If the broker was away for longer, its clock is in doubt at the start.
    private static let absence = Duration.seconds(7 * 86_400)
    private static let doubtAfterAbsence = Duration.seconds(3600)
    /// The time after a doubt during which irreversible acts are refused, if no evidence ended the doubt.
    private static let probation = SessionLimits.lapseGrace
    /// The time after a doubt during which tokens are not revoked, if evidence ended the doubt.
    private static let calm = Duration.seconds(600)
    /// The time that a process watches its clock before it may move the last time that the store has seen.
    ///
    /// Many machines start with a clock that is hours ahead, and it is set within minutes. The stored time must not be moved
    /// to such a wrong time, because it usually never goes back.
    private static let settling = Duration.seconds(600)
    /// The smallest step of the database's clock.
    ///
    /// A smaller difference between two answers may come from the network.
    private static let step = Duration.seconds(2)
    /// The delay in judging lapses, while the store may have rows from before a step of the database's clock.
    static let slack = Duration.seconds(120)
    /// The time for which `slack` applies after a step.
    static let slackLasts = Duration.seconds(86_400)
    /// The time within which other processes note a step in the store after this process's first comparison.
    ///
    /// Each process compares every two seconds.
    private static let stepIsNotedWithin = Duration.seconds(10)

    let hasStoreClock: Bool
    /// The reading of the wall clock at the last look.
    private var seen: ClockReading?
    /// The moment of the first look.
    private var begun: Duration?
    /// The database's clock at the last comparison.
    private var store: ClockReading?
    private var slackUntil: Duration?
    /// Whether a step of the database's clock has yet to be noted in the store.
    private(set) var hasUnnotedStep = false
    /// The last time that the store had seen when this process began; nil if unknown.
    private var mark: WallTime?
    /// The last time that the store has seen by now.
    private var storedMark: WallTime?
    /// The time of the machine's boot, as this process found it.
    private var bootedAt: WallTime?
    private var isBehind = false
    private var doubtfulUntil: Duration?
    private var cause = ClockDoubt.jumped
    /// The earliest moment for burying rows again.
    private var certainFrom: Duration?
    /// The earliest moment for revoking tokens again, after evidence has ended a doubt.
    private var calmFrom: Duration?
    private(set) var isProven = false
    /// A time from before the doubt, when the clock was still right.
    private(set) var trustedBefore: WallTime?
    /// The wall clock's last reading before it jumped.
    private var course: ClockReading?
    private var evidence = ClockEvidence()
    private var hasSeenUnsynchronised = false
    /// The duration of agreement in former processes, and the start of agreement in this one.
    private var agreed: (before: Duration, since: Duration)?

    init(hasStoreClock: Bool) { self.hasStoreClock = hasStoreClock }

    // MARK: The time

    /// The time at a moment, from the database's clock if there is one, otherwise from the machine's.
    func time(at moment: Duration) -> WallTime {
        store?.time(at: moment) ?? seen?.time(at: moment) ?? WallTime(milliseconds: 0)
    }

    /// The time at a moment as it is used to judge lapses.
    func lapseTime(at moment: Duration) -> WallTime {
        let isLenient = slackUntil.map { moment < $0 } ?? false
        return isLenient ? time(at: moment).advanced(by: .zero - Self.slack) : time(at: moment)
    }

    /// Returns the best present estimate of the time at an earlier moment.
    ///
    /// If the clock is in doubt, the result follows the clock's last reading before the jump, with at most two minutes added.
    /// If this reading is unknown, the result is at least the time that the store has seen.
    func time(of past: Duration, at moment: Duration) -> WallTime {
        guard isDoubted(moment), store == nil, !evidence.isAny(at: moment) else { return time(at: past) }
        if let course {
            let before = course.time(at: past)
            return max(before, min(time(at: past), before.advanced(by: Self.slack)))
        }
        guard let mark, let begun else { return time(at: past) }
        return max(time(at: past), mark.advanced(by: max(past - begun, .zero)))
    }

    var isCompared: Bool { store != nil }

    /// The wall clock's lead over the database's; nil before the first comparison.
    var ahead: Duration? {
        guard let store, let seen else { return nil }
        return seen.time.since(store.time(at: seen.moment))
    }

    /// Whether the wall clock differs from the database's.
    var isOff: Bool { ahead.map(Self.isApart) ?? false }

    private static func isApart(_ difference: Duration) -> Bool {
        difference > tolerance || difference < .zero - tolerance
    }

    // MARK: Trust

    /// Returns whether the clock may be wrong by as much as a session's lifetime.
    func isDoubted(_ moment: Duration) -> Bool { isBehind || doubtfulUntil.map { moment < $0 } ?? false }

    /// Returns whether the time is accurate enough to begin a session.
    func tellsTime(_ moment: Duration) -> Bool {
        let isGood = isCompared ? !isBehind : !isDoubted(moment)
        return isGood || evidence.isAny(at: moment)
    }

    /// Returns whether a session counts as lapsed once its time has passed.
    func believesLapses(_ moment: Duration) -> Bool {
        (isCompared || !hasStoreClock) && !isOff && !isDoubted(moment)
    }

    func isCalm(_ moment: Duration) -> Bool { calmFrom.map { moment >= $0 } ?? true }

    func isCertain(_ moment: Duration) -> Bool {
        believesLapses(moment) && certainFrom.map { moment >= $0 } ?? true
    }

    func isSettled(_ moment: Duration) -> Bool { begun.map { moment >= $0 + Self.settling } ?? false }

    /// Returns whether evidence could still change the trust in the clock.
    func isOpen(_ moment: Duration) -> Bool {
        isDoubted(moment) || (!isProven && certainFrom.map { moment < $0 } ?? false)
    }

    /// Returns the doubt at a moment; nil if the clock is trusted.
    func doubt(_ moment: Duration) -> ClockDoubt? {
        if isBehind { return .behind }
        if isDoubted(moment) { return cause }
        if isOff { return .apart }
        if hasStoreClock, !isCompared { return .uncompared }
        return isCertain(moment) ? nil : .uncertain
    }

    func witnesses(_ moment: Duration) -> [ClockWitness] { evidence.witnesses(at: moment) }

    // MARK: Looking

    /// Stores the readings of the wall clock and the monotonic clock, and whether they diverged since the last look.
    mutating func note(_ wall: WallTime, _ moment: Duration) {
        let before = seen
        let (wasDoubted, wasBehind) = (isDoubted(moment), isBehind)
        let trusted = store == nil ? before?.time(at: moment) : lapseTime(at: moment)
        seen = ClockReading(wall, moment)
        begun = begun ?? moment
        let hasJumped = before.map { Self.isApart(wall.since($0.time(at: moment))) } ?? false
        // Evidence from before the jump does not apply to the present clock, so drop it.
        if hasJumped { evidence.clear() }
        isBehind = isBehindMark(at: moment)
        if wasBehind, !isBehind {
            // A clock that was certainly wrong has been set, or has caught up. Judge it as at a start.
            compare(agreedBefore: .zero, at: moment)
        } else if hasJumped {
            if !wasDoubted { open(trusting: trusted) }
            course = course ?? before
            fallIntoDoubt(.jumped, at: moment)
        }
        if let course {
            if Self.isApart(wall.since(course.time(at: moment))) {
                evidence.refute(.course)
            } else {
                evidence.confirm(.course, at: moment)
            }
        }
        settle(moment)
    }

    private mutating func open(trusting time: WallTime?) {
        (course, trustedBefore, hasSeenUnsynchronised) = (nil, time, false)
    }

    private mutating func fallIntoDoubt(_ doubt: ClockDoubt, at moment: Duration) {
        evidence.clear()
        (isProven, calmFrom, cause) = (false, nil, doubt)
        agreed = (.zero, moment)
        let end = moment + Self.doubtAfterJump
        // If the clock was far ahead of the store's mark and jumps back near it, the hour of doubt since the start ends. Only
        // the ten minutes after the jump remain.
        let isBack = doubt == .jumped && mark.map { time(at: moment).since($0) <= Self.absence } ?? false
        doubtfulUntil = isBack ? end : max(doubtfulUntil ?? .zero, end)
        certainFrom = max(certainFrom ?? .zero, (doubtfulUntil ?? end) + Self.probation)
    }

    private func isBehindMark(at moment: Duration) -> Bool {
        mark.map { time(at: moment).since($0) < .zero - Self.tolerance } ?? false
    }

    // MARK: The store's clock

    /// Stores the reading of the database's clock at a moment.
    ///
    /// `error` is the largest error of `moment`.
    mutating func compared(_ time: WallTime, at moment: Duration, within error: Duration) {
        if let store {
            let parted = time.since(store.time(at: moment))
            // If the reading is as expected, within the error, keep the previous reading.
            guard parted > error || parted < .zero - error else { return }
            if parted > Self.step || parted < .zero - Self.step {
                if Self.isApart(parted) {
                    if !isDoubted(moment) { open(trusting: lapseTime(at: moment)) }
                    fallIntoDoubt(.storeJumped, at: moment)
                }
                slackUntil = moment + Self.slackLasts
                hasUnnotedStep = true
            }
        } else if let ahead = seen?.time(at: moment).since(time), ahead > Self.step || ahead < .zero - Self.step {
            // The clocks differ at the first comparison, perhaps because the database's clock was stepped a moment ago. Be
            // late with lapses until other processes have noted such a step.
            slackUntil = moment + Self.stepIsNotedWithin
        }
        store = ClockReading(time, moment)
        let wasBehind = isBehind
        isBehind = isBehindMark(at: moment)
        if wasBehind, !isBehind { compare(agreedBefore: .zero, at: moment) }
        settle(moment)
    }

    /// Notes that a step of the database's clock is in the store, for processes that begin later.
    mutating func stepIsNoted() { hasUnnotedStep = false }

    /// Applies the delay in judging lapses after a step that another process has noted.
    mutating func hear(steppedAt time: WallTime, at moment: Duration) {
        let rest = Self.slackLasts - self.time(at: moment).since(time)
        if rest > .zero { slackUntil = max(slackUntil ?? moment, moment + min(rest, Self.slackLasts)) }
    }

    // MARK: The mark

    /// Compares the clock at the start with the last time that the store has seen.
    ///
    /// `agreement` contains how long the clocks of former processes agreed, and until when.
    mutating func begin(lastSeen: WallTime?, agreement: ClockAgreement?, at moment: Duration) {
        (mark, storedMark) = (lastSeen, lastSeen)
        bootedAt = seen?.time.advanced(by: .zero - moment)
        let gap = agreement.map { time(at: moment).since($0.until) } ?? .zero
        let continues = gap >= .zero - Self.tolerance && gap <= Self.absence
        compare(agreedBefore: continues ? agreement?.lasted ?? .zero : .zero, at: moment)
    }

    private mutating func compare(agreedBefore: Duration, at moment: Duration) {
        guard let mark else { return }
        let beyond = time(at: moment).since(mark)
        isBehind = beyond < .zero - Self.tolerance
        if isBehind || beyond > Self.lapseGrace { open(trusting: mark) }
        guard beyond > Self.lapseGrace else { return }
        agreed = (agreedBefore, moment)
        var rest = Self.probation
        if beyond > Self.absence {
            let doubt = max(Self.doubtAfterAbsence - agreedBefore, .zero)
            doubtfulUntil = doubt > .zero ? moment + doubt : nil
            cause = .absent
            rest += Self.doubtAfterAbsence
        }
        certainFrom = max(certainFrom ?? .zero, moment + max(rest - agreedBefore, .zero))
    }

    private static let lapseGrace = SessionLimits.lapseGrace

    /// Returns how long the clocks have agreed since the doubt began, for later processes.
    func agreement(at moment: Duration) -> ClockAgreement? {
        guard let agreed, !isBehind, !isOff, !isProven, certainFrom.map({ moment < $0 }) ?? false else { return nil }
        return ClockAgreement(until: time(at: moment), lasted: agreed.before + moment - agreed.since)
    }

    mutating func markIs(_ time: WallTime) { storedMark = time }

    // MARK: Evidence

    /// Adds the kernel's report to the evidence.
    ///
    /// The report counts only if the kernel became synchronised after the doubt began. It also counts if the machine was
    /// booted after the last time that the store has seen. A restored snapshot still reports that it is synchronised.
    mutating func kernelSays(isSynchronised: Bool, at moment: Duration) {
        guard isOpen(moment) else { return }
        if !isSynchronised { hasSeenUnsynchronised = true }
        let bootedLately = bootedAt.flatMap { booted in storedMark.map { booted > $0 } } ?? false
        if isSynchronised, hasSeenUnsynchronised || bootedLately {
            evidence.confirm(.kernel, at: moment)
        } else {
            evidence.refute(.kernel)
        }
        settle(moment)
    }

    /// Adds the time of a witness at a moment to the evidence.
    mutating func hear(_ witness: ClockWitness, saying said: WallTime, at moment: Duration) {
        guard isOpen(moment) else { return }
        if Self.isApart(said.since(time(at: moment))) {
            evidence.refute(witness)
        } else {
            evidence.confirm(witness, at: moment)
        }
        settle(moment)
    }

    /// Adds the database's clock to the evidence, if its server is another machine.
    mutating func hearStore(isElsewhere: Bool, at moment: Duration) {
        guard isOpen(moment) else { return }
        if isElsewhere, isCompared, !isOff {
            evidence.confirm(.store, at: moment)
        } else {
            evidence.refute(.store)
        }
        settle(moment)
    }

    /// Ends the doubt if enough witnesses confirm the clock (`ClockEvidence.isEnough`).
    private mutating func settle(_ moment: Duration) {
        guard isOpen(moment) else {
            evidence.clear()
            (course, trustedBefore) = (nil, nil)
            return
        }
        guard !isOff, evidence.isEnough(at: moment) else { return }
        let calm = moment + Self.calm
        // Evidence must not take away an act that is already allowed again. So the calm time applies only if the doubt is
        // still open.
        if isDoubted(moment) { calmFrom = calm }
        certainFrom = isBehind ? calm : min(certainFrom ?? calm, calm)
        (doubtfulUntil, isBehind, isProven) = (nil, false, true)
        mark = mark.map { min($0, time(at: moment)) }
        evidence.clear()
        (course, trustedBefore, agreed) = (nil, nil, nil)
    }
}

/// The time for which clocks have agreed, while it was unknown whether they are right.
struct ClockAgreement: Sendable, Equatable {
    /// The clock's time when the agreement was last noted.
    let until: WallTime
    let lasted: Duration
}
