/// A reading of a clock, which the monotonic clock carries on.
struct ClockReading: Sendable {
    let time: WallTime
    let moment: Duration

    init(_ time: WallTime, _ moment: Duration) {
        self.time = time
        self.moment = moment
    }

    /// Returns what the clock would read at another moment.
    func time(at moment: Duration) -> WallTime { time.advanced(by: moment - self.moment) }
}

/// A reason to doubt the clock.
package enum ClockDoubt: String, Sendable, CaseIterable {
    /// The wall clock and the monotonic clock have parted by more than a minute.
    case jumped
    /// The process began more than a week beyond the last time that the store has seen.
    case absent
    /// The clock is behind the last time that the store has seen.
    case behind
    /// The wall clock is more than a minute away from the database's.
    case apart
    /// The database has not said its time yet.
    case uncompared
    /// The database's clock has jumped.
    case storeJumped = "database_jumped"
    /// A doubt is over, or the process began more than a day beyond the last time that the store has seen: nothing is buried.
    case uncertain
}

/// The readings of a process's clocks, and the trust that follows from them.
///
/// A value without a lock: `ClockWatch` guards it.
struct ClockState: Sendable {
    /// The most that two clocks may part.
    static let tolerance = Duration.seconds(60)
    private static let doubtAfterJump = Duration.seconds(600)
    /// The time for which a broker may have been away before its clock is doubted at the start.
    private static let absence = Duration.seconds(7 * 86_400)
    private static let doubtAfterAbsence = Duration.seconds(3600)
    /// The time after a doubt in which nothing is written that could not be undone, if no evidence ended the doubt.
    private static let probation = SessionLimits.lapseGrace
    /// The same after evidence has ended it.
    private static let calm = Duration.seconds(600)
    /// The time for which a process watches its clock before the store takes its time for seen: many machines start hours
    /// ahead and are set within minutes, and the time that was seen never goes back.
    private static let settling = Duration.seconds(600)
    /// A smaller difference between two answers of the database is a matter of the network.
    private static let step = Duration.seconds(2)
    /// Lapses are judged this much later while rows may have been written before the database's clock was stepped.
    static let slack = Duration.seconds(120)
    /// The time for which such rows count.
    static let slackLasts = Duration.seconds(86_400)
    /// The time after the first comparison in which other processes note a step that came before it: they compare every two
    /// seconds.
    private static let stepIsNotedWithin = Duration.seconds(10)

    let hasStoreClock: Bool
    /// The wall clock at the last look.
    private var seen: ClockReading?
    /// The first look.
    private var begun: Duration?
    /// The database's clock at the last comparison.
    private var store: ClockReading?
    private var slackUntil: Duration?
    /// Whether a step of the database's clock is still to be noted in the store.
    private(set) var hasUnnotedStep = false
    /// The last time that the store had seen when this process began.
    private var mark: WallTime?
    /// The same as it is now.
    private var storedMark: WallTime?
    /// The time of the machine's boot as this process found it.
    private var bootedAt: WallTime?
    private var isBehind = false
    private var doubtfulUntil: Duration?
    private var cause = ClockDoubt.jumped
    /// The moment from which rows may be buried again.
    private var certainFrom: Duration?
    /// The moment from which tokens may be revoked again, after evidence has ended a doubt.
    private var calmFrom: Duration?
    private(set) var isProven = false
    /// A time that was right before the doubt began.
    private(set) var trustedBefore: WallTime?
    /// The wall clock before it jumped.
    private var course: ClockReading?
    private var evidence = ClockEvidence()
    private var hasSeenUnsynchronised = false
    /// The time that the clocks of former processes agreed, and since when this one's do.
    private var agreed: (before: Duration, since: Duration)?

    init(hasStoreClock: Bool) { self.hasStoreClock = hasStoreClock }

    // MARK: The time

    /// The time at a moment: the database's, where it has a clock, else the machine's.
    func time(at moment: Duration) -> WallTime {
        store?.time(at: moment) ?? seen?.time(at: moment) ?? WallTime(milliseconds: 0)
    }

    /// The time by which lapses are judged at a moment.
    func lapseTime(at moment: Duration) -> WallTime {
        let isLenient = slackUntil.map { moment < $0 } ?? false
        return isLenient ? time(at: moment).advanced(by: .zero - Self.slack) : time(at: moment)
    }

    /// Returns the time of an earlier moment, as well as it can be told now: a doubted clock counts by its course and little more,
    /// or at the least by the time that the store has seen.
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

    /// The wall clock's lead over the database's; nil while they were never compared.
    var ahead: Duration? {
        guard let store, let seen else { return nil }
        return seen.time.since(store.time(at: seen.moment))
    }

    /// Whether the wall clock is not the database's.
    var isOff: Bool { ahead.map(Self.isApart) ?? false }

    private static func isApart(_ difference: Duration) -> Bool {
        difference > tolerance || difference < .zero - tolerance
    }

    // MARK: Trust

    /// Whether the clock may be wrong by as much as sessions live.
    func isDoubted(_ moment: Duration) -> Bool { isBehind || doubtfulUntil.map { moment < $0 } ?? false }

    /// Whether a session may begin with this time.
    func tellsTime(_ moment: Duration) -> Bool {
        let isGood = isCompared ? !isBehind : !isDoubted(moment)
        return isGood || evidence.isAny(at: moment)
    }

    /// Whether a session whose time has passed has lapsed.
    func believesLapses(_ moment: Duration) -> Bool {
        (isCompared || !hasStoreClock) && !isOff && !isDoubted(moment)
    }

    func isCalm(_ moment: Duration) -> Bool { calmFrom.map { moment >= $0 } ?? true }

    func isCertain(_ moment: Duration) -> Bool {
        believesLapses(moment) && certainFrom.map { moment >= $0 } ?? true
    }

    func isSettled(_ moment: Duration) -> Bool { begun.map { moment >= $0 + Self.settling } ?? false }

    /// Whether evidence could change anything.
    func isOpen(_ moment: Duration) -> Bool {
        isDoubted(moment) || (!isProven && certainFrom.map { moment < $0 } ?? false)
    }

    /// The doubt at a moment; nil for a clock that is trusted.
    func doubt(_ moment: Duration) -> ClockDoubt? {
        if isBehind { return .behind }
        if isDoubted(moment) { return cause }
        if isOff { return .apart }
        if hasStoreClock, !isCompared { return .uncompared }
        return isCertain(moment) ? nil : .uncertain
    }

    func witnesses(_ moment: Duration) -> [ClockWitness] { evidence.witnesses(at: moment) }

    // MARK: Looking

    /// Notes what the wall clock and the monotonic clock read, and whether they have parted since the last look.
    mutating func note(_ wall: WallTime, _ moment: Duration) {
        let before = seen
        let (wasDoubted, wasBehind) = (isDoubted(moment), isBehind)
        let trusted = store == nil ? before?.time(at: moment) : lapseTime(at: moment)
        seen = ClockReading(wall, moment)
        begun = begun ?? moment
        let hasJumped = before.map { Self.isApart(wall.since($0.time(at: moment))) } ?? false
        // What was heard, was heard of the clock as it was.
        if hasJumped { evidence.clear() }
        isBehind = isBehindMark(at: moment)
        if wasBehind, !isBehind {
            // A clock that was surely wrong has been set, or has caught up: it is judged as at a start.
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
        // A clock that comes back to where the store has seen it ends the hour of a start that was beyond.
        let isBack = doubt == .jumped && mark.map { time(at: moment).since($0) <= Self.absence } ?? false
        doubtfulUntil = isBack ? end : max(doubtfulUntil ?? .zero, end)
        certainFrom = max(certainFrom ?? .zero, (doubtfulUntil ?? end) + Self.probation)
    }

    private func isBehindMark(at moment: Duration) -> Bool {
        mark.map { time(at: moment).since($0) < .zero - Self.tolerance } ?? false
    }

    // MARK: The store's clock

    /// Notes what the database's clock read at a moment, which is known to within an error.
    mutating func compared(_ time: WallTime, at moment: Duration, within error: Duration) {
        if let store {
            let parted = time.since(store.time(at: moment))
            // It is where it was expected, as far as can be told.
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
            // Perhaps the database's clock was stepped a moment ago.
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

    /// Judges lapses with the slack of a step that another process has noted.
    mutating func hear(steppedAt time: WallTime, at moment: Duration) {
        let rest = Self.slackLasts - self.time(at: moment).since(time)
        if rest > .zero { slackUntil = max(slackUntil ?? moment, moment + min(rest, Self.slackLasts)) }
    }

    // MARK: The mark

    /// Compares the clock at the start with the last time that the store has seen; `agreement` says up to when and for how
    /// long the clocks of former processes agreed.
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

    /// The time that the clocks have agreed since they were doubted, for the processes that come later.
    func agreement(at moment: Duration) -> ClockAgreement? {
        guard let agreed, !isBehind, !isOff, !isProven, certainFrom.map({ moment < $0 }) ?? false else { return nil }
        return ClockAgreement(until: time(at: moment), lasted: agreed.before + moment - agreed.since)
    }

    mutating func markIs(_ time: WallTime) { storedMark = time }

    // MARK: Evidence

    /// Takes the kernel's word.
    ///
    /// It counts only if the kernel became synchronised after the doubt began, or the machine booted after the store's mark: a
    /// restored snapshot still claims to be synchronised.
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

    /// Takes a witness's word for the time at a moment.
    mutating func hear(_ witness: ClockWitness, saying said: WallTime, at moment: Duration) {
        guard isOpen(moment) else { return }
        if Self.isApart(said.since(time(at: moment))) {
            evidence.refute(witness)
        } else {
            evidence.confirm(witness, at: moment)
        }
        settle(moment)
    }

    /// Takes the database's clock for a witness, where its server is another machine.
    mutating func hearStore(isElsewhere: Bool, at moment: Duration) {
        guard isOpen(moment) else { return }
        if isElsewhere, isCompared, !isOff {
            evidence.confirm(.store, at: moment)
        } else {
            evidence.refute(.store)
        }
        settle(moment)
    }

    /// Ends the doubt if there is evidence enough.
    private mutating func settle(_ moment: Duration) {
        guard isOpen(moment) else {
            evidence.clear()
            (course, trustedBefore) = (nil, nil)
            return
        }
        guard !isOff, evidence.isEnough(at: moment) else { return }
        let calm = moment + Self.calm
        // Evidence takes nothing away: what the doubt's own time has allowed stays allowed.
        if isDoubted(moment) { calmFrom = calm }
        certainFrom = isBehind ? calm : min(certainFrom ?? calm, calm)
        (doubtfulUntil, isBehind, isProven) = (nil, false, true)
        mark = mark.map { min($0, time(at: moment)) }
        evidence.clear()
        (course, trustedBefore, agreed) = (nil, nil, nil)
    }
}

/// The time for which clocks were watched and agreed, while the question was open whether they are right.
struct ClockAgreement: Sendable, Equatable {
    /// The clock when it was last noted.
    let until: WallTime
    let lasted: Duration
}
