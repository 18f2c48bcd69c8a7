/// A time of a wall clock, and the monotonic clock's reading at the same moment.
///
/// The monotonic clock then gives later times of the wall clock.
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

/// The last readings of a process's clocks, and how far the broker trusts the clock because of them.
///
/// The state is a value without a lock; `ClockWatch` guards it.
struct ClockState: Sendable {
    /// The greatest difference between two clocks that counts as agreement.
    static let tolerance = Duration.seconds(60)
    private static let doubtAfterJump = Duration.seconds(600)
    /// If a broker starts within this time after its store was last in use, the broker trusts its clock.
    ///
    /// After a longer pause, the clock is in doubt at the start.
    private static let absence = Duration.seconds(7 * 86_400)
    private static let doubtAfterAbsence = Duration.seconds(3600)
    /// If no evidence ended a doubt, irreversible acts are refused for this time after the doubt.
    private static let probation = SessionLimits.lapseGrace
    /// If evidence ended a doubt, no tokens are revoked for this time after the doubt.
    private static let calm = Duration.seconds(600)
    /// The time after a process's start before it may move the store's mark, which is the last time that the store has
    /// recorded.
    ///
    /// Many machines start with a clock that is hours ahead, and it is set within minutes. If the mark moved to such a wrong
    /// time, it would usually stay there.
    private static let settling = Duration.seconds(600)
    /// The smallest difference between the database's clock and its expected time that counts as a step (somebody set the
    /// clock).
    ///
    /// A smaller difference between two answers may come from the network.
    private static let step = Duration.seconds(2)
    /// After a step of the database's clock, lapses are judged this much later, because the store may have rows from before the
    /// step.
    static let slack = Duration.seconds(120)
    /// The time after a step during which lapses are judged later by `slack`.
    static let slackLasts = Duration.seconds(86_400)
    /// If the database's clock was stepped just before this process began, another process records the step in the store within
    /// this time.
    ///
    /// Each process compares its clock with the database's clock every two seconds.
    private static let stepIsNotedWithin = Duration.seconds(10)

    let hasStoreClock: Bool
    /// The last reading of the wall clock.
    private var seen: ClockReading?
    /// The moment of the process's first reading of its clocks.
    private var begun: Duration?
    /// The reading of the database's clock; nil before the first comparison.
    private var store: ClockReading?
    private var slackUntil: Duration?
    /// Whether this process has noticed a step of the database's clock that has yet to be recorded in the store.
    private(set) var hasUnnotedStep = false
    /// The last time that the store had recorded when this process began; nil if this is unknown.
    private var mark: WallTime?
    /// The last time that the store has recorded until now.
    private var storedMark: WallTime?
    /// The time of the machine's boot, computed from the wall clock at the start of this process.
    private var bootedAt: WallTime?
    private var isBehind = false
    private var doubtfulUntil: Duration?
    private var cause = ClockDoubt.jumped
    /// The moment from which rows may be buried again; nil if they may be buried now.
    private var certainFrom: Duration?
    /// If evidence has ended a doubt: the moment from which tokens may be revoked again.
    private var calmFrom: Duration?
    private(set) var isProven = false
    /// A time before the doubt began, when the clock was still right; nil outside a doubt.
    private(set) var trustedBefore: WallTime?
    /// The wall clock's last reading before it jumped.
    private var course: ClockReading?
    private var evidence = ClockEvidence()
    private var hasSeenUnsynchronised = false
    /// The time since a clock last jumped, or since the doubt began with the process; nil outside a doubt.
    ///
    /// `before` is this time in former processes. `since` is the moment from which this process counts.
    private var agreed: (before: Duration, since: Duration)?

    init(hasStoreClock: Bool) { self.hasStoreClock = hasStoreClock }

    // MARK: The time

    /// Returns the time at a moment, according to the database's clock if the database has reported its time, otherwise
    /// according to the machine's clock.
    func time(at moment: Duration) -> WallTime {
        store?.time(at: moment) ?? seen?.time(at: moment) ?? WallTime(milliseconds: 0)
    }

    /// Returns the time at a moment for deciding whether a session has lapsed.
    ///
    /// After a step of the database's clock, this time is two minutes late.
    func lapseTime(at moment: Duration) -> WallTime {
        let isLenient = slackUntil.map { moment < $0 } ?? false
        return isLenient ? time(at: moment).advanced(by: .zero - Self.slack) : time(at: moment)
    }

    /// Returns the best estimate, with the present knowledge, of the time at an earlier moment.
    ///
    /// If the clock is in doubt, the result is computed from the clock's last reading before the jump. It is at most two minutes
    /// later than this reading predicts. If this reading is unknown, the result is at least the last time that the store has
    /// recorded.
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

    /// The time by which the wall clock is ahead of the database's clock; nil before the first comparison.
    var ahead: Duration? {
        guard let store, let seen else { return nil }
        return seen.time.since(store.time(at: seen.moment))
    }

    /// Whether the wall clock differs from the database's clock by more than a minute.
    var isOff: Bool { ahead.map(Self.isApart) ?? false }

    private static func isApart(_ difference: Duration) -> Bool {
        difference > tolerance || difference < .zero - tolerance
    }

    // MARK: Trust

    /// Returns whether the clock may be so wrong that living sessions would seem to have lapsed.
    func isDoubted(_ moment: Duration) -> Bool { isBehind || doubtfulUntil.map { moment < $0 } ?? false }

    /// Returns whether the time is accurate enough to begin a session.
    func tellsTime(_ moment: Duration) -> Bool {
        let isGood = isCompared ? !isBehind : !isDoubted(moment)
        return isGood || evidence.isAny(at: moment)
    }

    /// Returns whether the clock is trusted enough to decide that a session has lapsed.
    func believesLapses(_ moment: Duration) -> Bool {
        (isCompared || !hasStoreClock) && !isOff && !isDoubted(moment)
    }

    func isCalm(_ moment: Duration) -> Bool { calmFrom.map { moment >= $0 } ?? true }

    func isCertain(_ moment: Duration) -> Bool {
        believesLapses(moment) && certainFrom.map { moment >= $0 } ?? true
    }

    func isSettled(_ moment: Duration) -> Bool { begun.map { moment >= $0 + Self.settling } ?? false }

    /// Returns whether further evidence could change how far the clock is trusted.
    func isOpen(_ moment: Duration) -> Bool {
        isDoubted(moment) || (!isProven && certainFrom.map { moment < $0 } ?? false)
    }

    /// Returns the reason to doubt the clock at a moment; nil if the clock is trusted.
    func doubt(_ moment: Duration) -> ClockDoubt? {
        if isBehind { return .behind }
        if isDoubted(moment) { return cause }
        if isOff { return .apart }
        if hasStoreClock, !isCompared { return .uncompared }
        return isCertain(moment) ? nil : .uncertain
    }

    func witnesses(_ moment: Duration) -> [ClockWitness] { evidence.witnesses(at: moment) }

    // MARK: Looking

    /// Stores a reading of the wall clock and the monotonic clock.
    ///
    /// If they diverged since the last reading, a doubt begins.
    mutating func note(_ wall: WallTime, _ moment: Duration) {
        let before = seen
        let (wasDoubted, wasBehind) = (isDoubted(moment), isBehind)
        let trusted = store == nil ? before?.time(at: moment) : lapseTime(at: moment)
        seen = ClockReading(wall, moment)
        begun = begun ?? moment
        let hasJumped = before.map { Self.isApart(wall.since($0.time(at: moment))) } ?? false
        // Evidence from before the jump was about the time that the clock showed then, so drop it.
        if hasJumped { evidence.clear() }
        isBehind = isBehindMark(at: moment)
        if wasBehind, !isBehind {
            // The clock was behind the store's mark, so it was certainly wrong. Now the clock has been set or has caught up.
            // Judge the clock as at a start.
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
        // At the start, the clock was far ahead of the store's mark, so an hour of doubt began. Now the clock has jumped back
        // near the mark. So this hour ends, and only the ten minutes of doubt after the jump remain.
        let isBack = doubt == .jumped && mark.map { time(at: moment).since($0) <= Self.absence } ?? false
        doubtfulUntil = isBack ? end : max(doubtfulUntil ?? .zero, end)
        certainFrom = max(certainFrom ?? .zero, (doubtfulUntil ?? end) + Self.probation)
    }

    private func isBehindMark(at moment: Duration) -> Bool {
        mark.map { time(at: moment).since($0) < .zero - Self.tolerance } ?? false
    }

    // MARK: The store's clock

    /// Stores a reading of the database's clock, and compares it with the previous reading.
    ///
    /// `error` is the largest possible error of `moment`, because the database read its clock at some moment during the query.
    mutating func compared(_ time: WallTime, at moment: Duration, within error: Duration) {
        if let store {
            let parted = time.since(store.time(at: moment))
            // If the database's clock shows the expected time, within the error, the previous reading stays.
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
            // The clocks differ at the first comparison. The database's clock may have been stepped a moment ago. So judge
            // lapses later until other processes have had the time to record such a step.
            slackUntil = moment + Self.stepIsNotedWithin
        }
        store = ClockReading(time, moment)
        let wasBehind = isBehind
        isBehind = isBehindMark(at: moment)
        if wasBehind, !isBehind { compare(agreedBefore: .zero, at: moment) }
        settle(moment)
    }

    /// Notes that this process has recorded a step of the database's clock in the store.
    ///
    /// Processes that begin later read the step there.
    mutating func stepIsNoted() { hasUnnotedStep = false }

    /// Judges lapses later for a day, because another process has recorded a step of the database's clock at `time`.
    mutating func hear(steppedAt time: WallTime, at moment: Duration) {
        let rest = Self.slackLasts - self.time(at: moment).since(time)
        if rest > .zero { slackUntil = max(slackUntil ?? moment, moment + min(rest, Self.slackLasts)) }
    }

    // MARK: The mark

    /// Compares the clock at the start with the last time that the store has recorded.
    ///
    /// `agreement` is the record that a former process made during a doubt. It says how long ago a clock had last jumped, and
    /// when the record was made.
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

    /// Returns the time since a clock last jumped, which a later process continues to count.
    ///
    /// Returns nil if the clock is trusted, proven right or certainly wrong.
    func agreement(at moment: Duration) -> ClockAgreement? {
        guard let agreed, !isBehind, !isOff, !isProven, certainFrom.map({ moment < $0 }) ?? false else { return nil }
        return ClockAgreement(until: time(at: moment), lasted: agreed.before + moment - agreed.since)
    }

    mutating func markIs(_ time: WallTime) { storedMark = time }

    // MARK: Evidence

    /// Adds the kernel's report about a time service to the evidence.
    ///
    /// A restored snapshot still reports that the kernel is synchronised. So the report counts if the kernel became synchronised
    /// after the doubt began. It also counts if the machine was booted after the last time that the store has recorded.
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

    /// Adds a witness's time to the evidence: for the clock if the two agree, otherwise against it.
    mutating func hear(_ witness: ClockWitness, saying said: WallTime, at moment: Duration) {
        guard isOpen(moment) else { return }
        if Self.isApart(said.since(time(at: moment))) {
            evidence.refute(witness)
        } else {
            evidence.confirm(witness, at: moment)
        }
        settle(moment)
    }

    /// Adds the database's clock to the evidence.
    ///
    /// The database confirms the clock only if it runs on another machine.
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
        // If the doubt has already ended, tokens may be revoked again, and new evidence must not forbid this. So the ten
        // minutes without revocations begin only during the doubt.
        if isDoubted(moment) { calmFrom = calm }
        certainFrom = isBehind ? calm : min(certainFrom ?? calm, calm)
        (doubtfulUntil, isBehind, isProven) = (nil, false, true)
        mark = mark.map { min($0, time(at: moment)) }
        evidence.clear()
        (course, trustedBefore, agreed) = (nil, nil, nil)
    }
}

/// The length of the time, during a doubt, since a clock last jumped.
///
/// The clocks may still show a wrong time, although they agree.
struct ClockAgreement: Sendable, Equatable {
    /// The clock's time when this duration was last recorded.
    let until: WallTime
    let lasted: Duration
}
