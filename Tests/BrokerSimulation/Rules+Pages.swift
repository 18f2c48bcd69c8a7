import Broker
import BrokerTestSupport

/// The promises about the children in the store (guarantee 10), and about hand-overs to pages (guarantee 11).
extension Rules {
    /// The largest difference between two processes' clocks after their correction by the store's clock.
    private static let clockTolerance = 2_000
    /// The longest time after a trouble, such as a crash, until a ticket must be accepted again.
    ///
    /// Claims lapse and pauses end within this time.
    private static let aftermath = 120_000

    /// Judges a child that was inserted into the store.
    ///
    /// `parent` is the parent's row immediately before the insertion.
    func inserted(_ row: SessionRow, of parent: SessionRow?) {
        guard let lineage = row.lineage else { return }
        if parent?.endedAt != nil { fault("a child was inserted after its parent session had ended") }
        let count = world.childRows.inserted(row.tokenDigest, lineage)
        let kind = (try? SessionFacts.open(row, world.vault))?.child?.kind
        if kind == .web, count > 1 { fault("one hand-over ticket made \(count) web sessions") }
    }

    /// Judges the result after programs without the secret of a ticket tried to redeem it.
    func scanned(_ ticket: HandoverTicket) {
        if ticket.page == nil, !world.childRows.all(at: ticket.place).isEmpty {
            fault("a hand-over ticket made a web session for a request without the secret")
        }
    }

    /// Judges the child session that an app or a backend got in return for a ticket.
    func redeemed(_ ticket: HandoverTicket, as child: Digest, by process: SimulatedProcess, askedAt: Int) {
        if askedAt > ticket.expiresAt + Self.clockTolerance, !world.weather.clocksStep {
            fault("a hand-over ticket was accepted after its end")
        }
        if let page = ticket.page, page.digest != child {
            fault("one hand-over ticket was answered with two different web sessions")
        }
        guard let end = ticket.parent.loggedOut else { return }
        let patience = process.isUndisturbed(since: end.at) ? 3_000 : 5_000
        if process === end.by && askedAt >= end.at || askedAt > end.at + patience {
            fault("a hand-over ticket made a web session after the parent was logged out at \(end.at)")
        }
    }

    /// Judges the refusal of a ticket that was sent with its right secret.
    ///
    /// The ticket is in the store, so the broker has to accept it for a whole minute. The ticket ends early only if its
    /// session, or the page's session, has ended.
    func refused(_ ticket: HandoverTicket, _ problem: BrokerProblem, askedAt: Int) async {
        let weather = world.weather
        guard world.scheduler.now < ticket.expiresAt - Self.clockTolerance, !weather.clocksStep, weather.idleEnd == nil,
            !ticket.parent.logOutAsked
        else { return }
        let isFinal = problem.code == .handoverExpired || problem.code == .verifierMismatch
        guard isFinal || (weather.isFine && world.troubledAt + Self.aftermath < askedAt) else { return }
        if await world.hasEnded(ticket.parent.digest) { return }
        for child in world.childRows.all(at: ticket.place) {
            if await world.hasEnded(child) { return }
        }
        fault("a valid hand-over ticket was refused: \(problem.code.rawValue)")
    }

    /// At the end of a run, checks that all children of ended sessions have ended, even if no app ever received the answer
    /// about a child.
    func judgeChildren() async {
        for (child, parent) in world.childRows.rows {
            guard let row = try? await world.memory.session(tokenDigest: child),
                let own = try? await world.memory.session(tokenDigest: parent)
            else { continue }
            if own.endedAt != nil, row.endedAt == nil {
                fault("a child is live in the store after its parent has ended: \(row.handle)")
            }
        }
    }
}
