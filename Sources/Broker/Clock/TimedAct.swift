/// An act that depends on the time.
///
/// Each case is a row of the table of clocks in guarantee 3.
///
/// A caller only names the act that it wants to do. `ClockWatch` alone decides how much trust in the clock the act needs.
package enum TimedAct: Sendable, CaseIterable {
    /// A session begins (by a sign-in, as a child or with a ticket), or a presence key is registered.
    case begin
    /// A caller's demand on the age of a sign-in is compared with the time.
    case judgeAge
    /// A use moves the end of a session's idle time in the store.
    case writeUse
    /// A refresh moves the end of a session.
    case moveEnd
    /// A caller is refused for good because something is too old, for example a repeated request or an identity.
    case refuse
    /// A session counts as ended because its time limit has passed.
    case concludeLapse
    /// Tokens are revoked at the provider.
    case revoke
    /// Expired rows are removed, or replaced by tombstones.
    case bury
    /// The store's mark moves, which is the last time that the store has recorded.
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
    /// Returns whether an act is allowed now.
    func may(_ act: TimedAct) -> Bool { watch.allows(act, clock) }

    /// Throws `store_unavailable` unless the clock is trusted enough for an act now.
    func require(_ act: TimedAct) throws(BrokerProblem) {
        guard may(act) else { throw .clockDoubted }
    }

    /// The time for deciding whether a session has lapsed.
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
