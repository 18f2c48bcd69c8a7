import Broker
import BrokerTestSupport

/// The promises about children in the store (guarantee 10), and about hand-overs (guarantee 11).
extension Rules {
    /// The largest difference between the corrected clocks of processes.
    private static let clockTolerance = 2_000
    /// The longest wait for a page after any trouble, until claims have lapsed and pauses have ended.
    private static let aftermath = 120_000

    /// Judges a child that was inserted into the store; `parent` is the parent's row immediately before.
    func inserted(_ row: SessionRow, of parent: SessionRow?) {
        guard let lineage = row.lineage else { return }
        if parent?.endedAt != nil { fault("a child was inserted after its parent session had ended") }
        let count = world.childRows.inserted(row.tokenDigest, lineage)
        let kind = (try? SessionFacts.open(row, world.vault))?.child?.kind
        if kind == .web, count > 1 { fault("one hand-over ticket made \(count) web sessions") }
    }

    /// Judges the attempts of programs that lack the secret of a ticket.
    func scanned(_ ticket: HandoverTicket) {
        if ticket.page == nil, !world.childRows.all(at: ticket.place).isEmpty {
            fault("a hand-over ticket made a web session for a request without the secret")
        }
    }

    /// Judges a page that an app or backend got for a ticket.
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

    /// Judges the refusal of a ticket with its secret.
    ///
    /// The ticket's row is durable, so the ticket is good for its whole minute. It ends early only if its session or page has
    /// ended.
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

    /// Checks at the end of a run that all children of ended sessions have ended, even those whose answers were lost.
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
