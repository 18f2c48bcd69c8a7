import Testing

@testable import Broker

/// The refresh machine for tokens of other APIs, as tables of events and expected actions (guarantee 2).
@Suite("The refresh machine for tokens of other APIs", .timeLimit(.minutes(1))) struct TargetMachineTests {
    typealias Machine = RefreshStateMachine
    typealias Input = MachineTable.Event
    typealias Action = Machine.Action

    private func run(
        _ call: RefreshCall, _ need: Machine.Need, _ steps: [(Input, Action)]
    ) throws {
        MachineTable(need: need, goal: try MachineTable.goal(call)).check(steps)
    }

    private func run(_ steps: [(Input, Action)]) throws { try run(.targeted, .expiring, steps) }

    private func read(
        _ version: Int64 = 3, fresh: Bool = false, usable: Bool = false, refreshable: Bool = true,
        _ standing: Input.Standing = .missing, needsOwn: Bool = false
    ) -> Input {
        .read(
            version: version, live: true, fresh: fresh, usable: usable, refreshable: refreshable, standing: standing,
            needsOwn: needsOwn)
    }

    private let granted = Input.claimed(lossKnown: false, settled: true)

    @Test(
        "A target's refusal may concern the grant → one plain refresh follows; only that refresh's refusal can end the session",
        arguments: [Machine.Refusal.invalidGrant, .counted(enough: true), .counted(enough: false)])
    func question(_ refusal: Machine.Refusal) throws {
        let begun: [(Input, Action)] = [
            (read(), .claim(version: 3)), (granted, .call(confirming: false, .targeted)),
            (.rejected(refusal), .call(confirming: false, .plain)),
        ]
        try run(
            begun + [
                (.refreshed, .commit), (.committed, .checkSubject), (.subjectChecked(.same), .readAgain),
                (read(4), .finish(.targetRefused)),
            ])
        // The machine's result is `targetRefused`, although an older token is still usable. The caller of the machine decides
        // whether it serves this token.
        try run(
            begun + [
                (.refreshed, .commit), (.committed, .checkSubject), (.subjectChecked(.same), .readAgain),
                (read(4, usable: true, .version(2)), .finish(.targetRefused)),
            ])
        try run(
            begun + [(.rejected(.invalidGrant), .condemn(.grantRevoked)), (.condemned(true), .finish(.sessionEnded))])
        try run(begun + [(.rejected(.counted(enough: true)), .condemn(.grantRevoked))])
        try run(begun + [(.rejected(.counted(enough: false)), .release(then: .unavailable))])
        try run(begun + [(.retryable, .release(then: .unavailable))])
        try run(begun + [(.lost, .call(confirming: true, .plain)), (.rejected(.invalidGrant), .condemn(.refreshLost))])
        // Another process has stored its token pair first. Perhaps both pairs come from the same refresh token. So the token
        // for the API is fetched again.
        try run(begun + [(.refreshed, .commit), (.superseded, .readAgain), (read(4), .claim(version: 4))])
        try run(
            begun + [
                (.rejected(.invalidGrant), .condemn(.grantRevoked)), (.condemned(false), .readAgain),
                (read(4), .claim(version: 4)),
            ])
    }

    @Test(
        "A token exchange is refused, then a plain refresh succeeds → one more exchange; it fails, too → the target is refused",
        arguments: [Machine.Refusal.invalidGrant, .counted(enough: true), .counted(enough: false)])
    func exchangedAgain(_ refusal: Machine.Refusal) throws {
        let begun: [(Input, Action)] = [
            (read(), .claim(version: 3)), (granted, .call(confirming: false, .exchange)),
            (.rejected(refusal), .call(confirming: false, .plain)), (.refreshed, .commit),
            (.committed, .checkSubject), (.subjectChecked(.same), .readAgain), (read(4), .claim(version: 4)),
            (granted, .call(confirming: false, .exchange)),
        ]
        try run(.exchange, .expiring, begun + [(.exchanged, .keep), (.kept, .readAgain)])
        try run(.exchange, .expiring, begun + [(.rejected(refusal), .release(then: .targetRefused))])
        try run(.exchange, .expiring, begun + [(.rejected(.target), .release(then: .targetRefused))])
    }

    @Test("A claim was just taken over, and the plain refresh gets `invalid_grant` → the session is not condemned")
    func takenOver() throws {
        try run([
            (read(), .claim(version: 3)),
            (.claimed(lossKnown: true, settled: false), .call(confirming: false, .targeted)),
            (.rejected(.invalidGrant), .call(confirming: false, .plain)),
            (.rejected(.invalidGrant), .release(then: .unavailable)),
        ])
    }

    @Test(
        "The provider refuses the target → the claim is released, and the refusal is reported even if an older token is usable"
    )
    func refused() throws {
        try run([
            (read(), .claim(version: 3)), (granted, .call(confirming: false, .targeted)),
            (.rejected(.target), .release(then: .targetRefused)),
        ])
        try run([
            (read(usable: true, .version(2)), .claim(version: 3)), (granted, .call(confirming: false, .targeted)),
            (.rejected(.target), .release(then: .targetRefused)),
        ])
    }

    @Test(
        "The provider must not be called now → a caller gets the target's living token, unless an upstream refused this token",
        arguments: [RefreshCall.targeted, .exchange])
    func resting(_ call: RefreshCall) throws {
        func lately(usable: Bool, fresh: Bool = false) -> Input {
            .read(
                version: 3, live: true, fresh: fresh, usable: usable, refreshable: true, withheld: .lately,
                standing: .version(2))
        }
        try run(call, .expiring, [(lately(usable: false), .finish(.unavailable))])
        try run(call, .forced(fromVersion: 2), [(lately(usable: true, fresh: true), .finish(.unavailable))])
        try run(call, .expiring, [(lately(usable: true), .finish(.useStored))])
        try run(call, .forced(fromVersion: 1), [(lately(usable: true, fresh: true), .finish(.useStored))])
        try run(.plain, .expiring, [(lately(usable: true), .finish(.unavailable))])
    }

    @Test(
        "A target's answer is lost, and its repeat is refused → a plain refresh; this refresh is refused, too → the session ends"
    )
    func lost() throws {
        let begun: [(Input, Action)] = [
            (read(), .claim(version: 3)), (granted, .call(confirming: false, .targeted)),
            (.lost, .call(confirming: true, .targeted)),
        ]
        try run(begun + [(.lost, .release(then: .unavailable))])
        try run(begun + [(.refreshed, .commit), (.committed, .checkSubject)])
        try run(
            begun + [
                (.rejected(.invalidGrant), .call(confirming: false, .plain)),
                (.rejected(.invalidGrant), .condemn(.refreshLost)),
            ])
        try run(
            begun + [
                (.rejected(.invalidGrant), .call(confirming: false, .plain)), (.refreshed, .commit),
                (.committed, .checkSubject), (.subjectChecked(.same), .readAgain), (read(4), .finish(.targetRefused)),
            ])
    }

    @Test(
        "A target's answer has tokens → they are committed, then their subject is checked, then the stored tokens are used"
    )
    func goodWay() throws {
        try run([
            (read(), .claim(version: 3)), (granted, .call(confirming: false, .targeted)), (.refreshed, .commit),
            (.committed, .checkSubject), (.subjectChecked(.same), .readAgain),
            (read(4, fresh: true, .version(7)), .finish(.useStored)),
        ])
        // A step-up has deleted the row of the token meanwhile, so the token is fetched again.
        try run([
            (read(), .claim(version: 3)), (granted, .call(confirming: false, .targeted)), (.refreshed, .commit),
            (.superseded, .readAgain), (read(5), .claim(version: 5)),
        ])
        try run([(read(refreshable: false), .finish(.notRefreshable))])
    }

    @Test(
        "An upstream refused a target's token → the stored one is newer only by its own version; the row's version does not count"
    )
    func forced() throws {
        try run(.targeted, .forced(fromVersion: 5), [(read(9, fresh: true, .version(5)), .claim(version: 9))])
        try run(.targeted, .forced(fromVersion: 5), [(read(5, fresh: true, .version(8)), .finish(.useStored))])
        try run(.targeted, .forced(fromVersion: 5), [(read(5), .claim(version: 5))])
        // The session's own token is wanted, after a refresh for another API has raised the row's version.
        try run(.plain, .forced(fromVersion: 5), [(read(9, fresh: true, .version(5)), .claim(version: 9))])
        try run(.plain, .forced(fromVersion: 5), [(read(9, fresh: true, .version(6)), .finish(.useStored))])
    }

    @Test(
        "A token exchange is due, but the session's own token has expired → a plain refresh comes first"
    )
    func exchange() throws {
        try run(
            .exchange, .expiring,
            [
                (read(needsOwn: true), .claim(version: 3)), (granted, .call(confirming: false, .plain)),
                (.refreshed, .commit), (.committed, .checkSubject), (.subjectChecked(.same), .readAgain),
                (read(4, needsOwn: true), .claim(version: 4)), (granted, .call(confirming: false, .exchange)),
                (.exchanged, .keep), (.kept, .readAgain), (read(4, fresh: true, .version(9)), .finish(.useStored)),
            ])
        let begun: [(Input, Action)] = [
            (read(), .claim(version: 3)), (granted, .call(confirming: false, .exchange)),
        ]
        try run(.exchange, .expiring, begun + [(.lost, .release(then: .unavailable))])
        try run(.exchange, .expiring, begun + [(.rejected(.unclear), .release(then: .unavailable))])
        try run(
            .exchange, .expiring,
            begun + [
                (.rejected(.invalidGrant), .call(confirming: false, .plain)),
                (.rejected(.invalidGrant), .condemn(.grantRevoked)),
            ])
        // Another process has claimed the row meanwhile, so the token exchange is made again.
        try run(
            .exchange, .expiring, begun + [(.exchanged, .keep), (.kept, .readAgain), (read(4), .claim(version: 4))])
        try run(.exchange, .expiring, [(read(refreshable: false), .claim(version: 3))])
        try run(.exchange, .expiring, [(read(refreshable: false, needsOwn: true), .finish(.notRefreshable))])
    }
}
