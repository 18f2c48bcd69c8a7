/// An act that depends on the time.
///
/// The cases are the rows of guarantee 3's table of clocks.
///
/// Callers name the act. `ClockWatch` alone decides how much trust in the clock the act needs.
package enum TimedAct: Sendable, CaseIterable {
    /// A session begins by a sign-in, as a child or with a ticket, or a presence key is registered.
    case begin
    /// A caller's demand on the age of a sign-in is compared with the time.
    case judgeAge
    /// A use moves a session's idle time in the store.
    case writeUse
    /// A refresh moves a session's end.
    case moveEnd
    /// A caller is refused for good because of the time, for example for a late repeat or an expired identity.
    case refuse
    /// A session is treated as over because its time has passed.
    case concludeLapse
    /// Tokens are revoked at the provider.
    case revoke
    /// Rows are removed or become tombstones.
    case bury
    /// The last time that the store has seen is moved.
    case moveMark
}

extension ClockState {
    /// Returns whether an act is allowed at a moment of the monotonic clock.
    func allows(_ act: TimedAct, at moment: Duration) -> Bool {
        switch act {
        case .begin, .judgeAge: tellsTime(moment)
        case .writeUse: hasStoreClock ? isCompared : believesLapses(moment)
        case .moveEnd, .refuse, .concludeLapse: believesLapses(moment)
        case .revoke: believesLapses(moment) && isCalm(moment)
        case .bury: isCertain(moment)
        case .moveMark: isCertain(moment) && isSettled(moment)
        }
    }
}

extension BrokerContext {
    /// Returns whether an act may be done now.
    func may(_ act: TimedAct) -> Bool { watch.allows(act, clock) }

    /// Throws `store_unavailable` unless an act may be done now.
    func require(_ act: TimedAct) throws(BrokerProblem) {
        guard may(act) else { throw .clockDoubted }
    }

    /// The time for judging lapses.
    var lapseTime: WallTime { watch.lapseTime(clock) }
}

extension BrokerProblem {
    /// The problem for a caller while the clock is not trusted enough for an act.
    static var clockDoubted: BrokerProblem {
        BrokerProblem(
            .storeUnavailable,
            privateDetail: "the clock is in doubt; check the time of this machine and of the database server",
            retryAfter: .seconds(30))
    }
}
