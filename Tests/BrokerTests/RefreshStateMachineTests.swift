import BrokerTestSupport
import Testing

@testable import Broker

/// The refresh machine as tables of *input == action*, without a clock, store or provider.
@Suite(.timeLimit(.minutes(2))) struct RefreshStateMachineTests {
    typealias Input = MachineTable.Event
    typealias Action = RefreshStateMachine.Action

    private func run(_ need: RefreshStateMachine.Need, _ steps: [(Input, Action)]) {
        MachineTable(need: need, goal: OwnToken()).check(steps)
    }

    private let stale = Input.read(version: 3, live: true, fresh: false, usable: false, refreshable: true)
    private let renewed = Input.read(
        version: 4, live: true, fresh: false, usable: true, refreshable: true, unchecked: true)
    private let granted = Input.claimed(lossKnown: false, settled: true)
    private let early = Input.read(version: 3, live: true, fresh: false, usable: true, refreshable: true)

    @Test("A fresh token → served without a call")
    func fresh() {
        run(
            .expiring,
            [(.read(version: 1, live: true, fresh: true, usable: true, refreshable: true), .finish(.useStored))])
    }

    @Test("A successful refresh → claim, call, commit, check, use, in this order")
    func goodWay() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.refreshed, .commit), (.committed, .checkSubject),
                (.subjectChecked(.same), .readAgain), (renewed, .finish(.useStored)),
            ])
    }

    @Test(
        "The access token is withheld → callers are refused, and after a pause the next caller causes another call"
    )
    func withheld() {
        func read(_ version: Int64, _ withheld: FoundToken.Withheld) -> Input {
            .read(version: version, live: true, fresh: false, usable: false, refreshable: true, withheld: withheld)
        }
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)), (.refreshed, .commit),
                (.committed, .checkSubject), (.subjectChecked(.same), .readAgain),
                (read(4, .lately), .finish(.unavailable)),
            ])
        run(.forced(fromVersion: 3), [(read(4, .lately), .finish(.unavailable))])
        run(.forced(fromVersion: 3), [(read(4, .before), .claim(version: 4))])
        run(.expiring, [(read(4, .before), .claim(version: 4))])
        // The clock was set back, so the withheld token looks old. The caller is still refused.
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)), (.refreshed, .commit),
                (.committed, .checkSubject), (.subjectChecked(.same), .readAgain),
                (read(4, .before), .finish(.unavailable)),
            ])
    }

    @Test(
        "A pair arrives → stored first, and its id_token is checked next; another subject → the session ends (SEC-56, SEC-59)"
    )
    func otherSubject() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.refreshed, .commit), (.committed, .checkSubject),
                (.subjectChecked(.another), .end(.subjectChanged, ifStillAt: 4)),
            ])
    }

    @Test("A parsed invalid_grant → condemns the session, with the claim's own fence and version (SEC-58)")
    func invalidGrant() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.rejected(.invalidGrant), .condemn(.grantRevoked)),
                (.condemned(true), .finish(.sessionEnded)),
            ])
    }

    @Test("A condemnation comes too late → the machine reads the winner's pair instead (SEC-55)")
    func lateCondemnation() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.rejected(.invalidGrant), .condemn(.grantRevoked)),
                (.condemned(false), .readAgain),
                (.read(version: 4, live: true, fresh: true, usable: true, refreshable: true), .finish(.useStored)),
            ])
    }

    @Test("An invalid_grant after a take-over → condemns only after a late owner had time to commit")
    func takenOver() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(lossKnown: true, settled: false), .call(confirming: false)),
                (.rejected(.invalidGrant), .release(then: .unavailable)),
            ])
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(lossKnown: true, settled: true), .call(confirming: false)),
                (.rejected(.invalidGrant), .condemn(.refreshLost)),
            ])
    }

    @Test("A lost answer → retried once; the retry is refused → refresh_lost")
    func lostAnswer() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.lost, .call(confirming: true)),
                (.rejected(.invalidGrant), .condemn(.refreshLost)),
            ])
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.lost, .call(confirming: true)), (.lost, .release(then: .unavailable)),
            ])
    }

    @Test(
        "A temporary fault → never ends a session (guarantee 3)",
        arguments: [
            Input.notSent, .retryable, .unusable,
        ])
    func passingFaults(_ fault: Input) {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (fault, .release(then: .unavailable)),
            ])
        // The early refresh failed. The token has not expired, so it is served.
        run(
            .expiring,
            [
                (early, .claim(version: 3)), (granted, .call(confirming: false)),
                (fault, .release(then: .useStored)),
            ])
    }

    @Test("A refusal other than invalid_grant → confirmed once, and never condemns (SEC-58)")
    func otherRefusal() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.rejected(.unclear), .call(confirming: true)),
                (.rejected(.unclear), .release(then: .unavailable)),
            ])
    }

    @Test("Another process has the claim → wait and read again (SEC-54)")
    func busy() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.busy, .wait), (stale, .claim(version: 3)), (.busy, .wait),
                (.read(version: 4, live: true, fresh: true, usable: true, refreshable: true), .finish(.useStored)),
            ])
        run(.expiring, [(early, .claim(version: 3)), (.busy, .finish(.useStored))])
        run(.expiring, [(stale, .claim(version: 3)), (.busy, .wait), (.patienceOver, .finish(.unavailable))])
    }

    @Test("A forced refresh finds another version → makes no call")
    func forced() {
        run(
            .forced(fromVersion: 2),
            [(.read(version: 3, live: true, fresh: false, usable: true, refreshable: true), .finish(.useStored))])
        run(
            .forced(fromVersion: 3),
            [(.read(version: 3, live: true, fresh: true, usable: true, refreshable: true), .claim(version: 3))])
    }

    @Test(
        "A pair loses to a newer version → the newer pair is read; its session has ended → the pair is revoked (SEC-64)"
    )
    func lateCommit() {
        let called: [(Input, Action)] = [
            (stale, .claim(version: 3)), (granted, .call(confirming: false)),
            (.refreshed, .commit),
        ]
        run(.expiring, called + [(.superseded, .readAgain), (renewed, .checkSubject)])
        run(.expiring, called + [(.ended, .revoke)])
    }

    @Test("A session without a refresh token → not_refreshable if forced; otherwise its token is served while it lives")
    func notRefreshable() {
        run(
            .expiring,
            [(.read(version: 1, live: true, fresh: false, usable: true, refreshable: false), .finish(.useStored))])
        run(
            .forced(fromVersion: 1),
            [(.read(version: 1, live: true, fresh: true, usable: true, refreshable: false), .finish(.notRefreshable))])
    }

    @Test("Stored tokens with an unchecked subject → checked before any caller gets them (SEC-59)")
    func unchecked() {
        run(
            .expiring,
            [
                (renewed, .checkSubject), (.subjectChecked(.same), .readAgain),
                (
                    .read(version: 4, live: true, fresh: true, usable: true, refreshable: true, unchecked: true),
                    .finish(.useStored)
                ),
            ])
        run(.expiring, [(renewed, .checkSubject), (.subjectChecked(.another), .end(.subjectChanged, ifStillAt: 4))])
        run(.expiring, [(renewed, .checkSubject), (.subjectChecked(.unknown), .finish(.unavailable))])
    }

    @Test(
        "A refusal without a body, or with a counted error → releases the claim; enough refusals → condemn (guarantee 2)"
    )
    func emptyRefusals() {
        let called: [(Input, Action)] = [(stale, .claim(version: 3)), (granted, .call(confirming: false))]
        run(.expiring, called + [(.rejected(.counted(enough: false)), .release(then: .unavailable))])
        run(.expiring, called + [(.rejected(.counted(enough: true)), .condemn(.grantRevoked))])
    }

    @Test("A rotated token may have been lost, and invalid_grant follows → refresh_lost, in any process (SEC-56)")
    func lossKnown() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(lossKnown: true, settled: true), .call(confirming: false)),
                (.rejected(.invalidGrant), .condemn(.refreshLost)),
            ])
    }

    @Test("An unclear refusal, and then an invalid_grant → grant_revoked, not refresh_lost")
    func unclearFirst() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.rejected(.unclear), .call(confirming: true)), (.rejected(.invalidGrant), .condemn(.grantRevoked)),
            ])
    }

    @Test("A session ended before the read or the claim → session_ended; the store fails → store_unavailable")
    func endings() {
        run(
            .expiring,
            [(.read(version: 1, live: false, fresh: false, usable: false, refreshable: false), .finish(.sessionEnded))])
        run(.expiring, [(stale, .claim(version: 3)), (.gone, .finish(.sessionEnded))])
        run(.expiring, [(stale, .claim(version: 3)), (.storeFailed, .finish(.storeUnavailable))])
    }
}
