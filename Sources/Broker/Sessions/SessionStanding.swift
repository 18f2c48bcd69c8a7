/// The state of a session according to its times, before an ending is stored.
enum SessionStanding: Sendable, Equatable {
    case lives
    case lapsed(EndReason)
    /// The session has lapsed according to a clock in doubt, so the broker draws no conclusion.
    case doubted

    /// Judges a row by the time, and by the session's uses that are kept in memory while the clock is in doubt.
    init(_ row: SessionRow, _ context: BrokerContext) {
        guard let reason = SessionEnds(row).lapse(at: context.lapseTime), !context.isKeptAlive(row) else {
            self = .lives
            return
        }
        self = context.may(.concludeLapse) ? .lapsed(reason) : .doubted
    }
}
