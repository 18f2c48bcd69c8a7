/// How a session that nobody has ended stands by its times.
enum SessionStanding: Sendable, Equatable {
    case lives
    case lapsed(EndReason)
    /// It has lapsed by a wall clock that has jumped or is not the store's: nobody can know, and nothing is concluded from it.
    case doubted

    /// Judges a row by both clocks.
    init(_ row: SessionRow, _ context: BrokerContext) {
        guard let reason = SessionLimits.lapse(of: row, at: context.clock.now()) else {
            self = .lives
            return
        }
        self = context.watch.believes(context.clock) ? .lapsed(reason) : .doubted
    }
}

extension BrokerProblem {
    /// The answer while the wall clock is not believed.
    static var clockDoubted: BrokerProblem {
        BrokerProblem(
            .storeUnavailable, privateDetail: "the clock has jumped or is not the store's", retryAfter: .seconds(30))
    }
}
