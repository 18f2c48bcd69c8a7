import Testing

@testable import Broker

/// The refresh machine as tables of *input == action*: no clock, no store, no provider.
@Suite struct RefreshStateMachineTests {
    typealias Input = RefreshStateMachine.Input
    typealias Action = RefreshStateMachine.Action

    private func run(_ need: RefreshStateMachine.Need, _ steps: [(Input, Action)]) {
        var machine = RefreshStateMachine(need: need)
        for (index, step) in steps.enumerated() {
            let action = machine.handle(step.0)
            #expect(action == step.1, "step \(index)")
        }
    }

    private let stale = Input.read(version: 3, live: true, fresh: false, usable: false, refreshable: true)
    private let early = Input.read(version: 3, live: true, fresh: false, usable: true, refreshable: true)

    @Test("A fresh token is served without a call")
    func fresh() {
        run(
            .expiring,
            [(.read(version: 1, live: true, fresh: true, usable: true, refreshable: true), .finish(.useStored))])
    }

    @Test("The good way: claim, call, commit, check, use")
    func goodWay() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(fence: 1, takenOver: false), .call(confirming: false)),
                (.refreshed, .commit), (.committed, .checkSubject),
                (.subjectChecked(same: true), .finish(.useStored)),
            ])
    }

    @Test("The pair is stored before its id_token is looked at; another subject then ends the session (SEC-56, SEC-59)")
    func otherSubject() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(fence: 1, takenOver: false), .call(confirming: false)),
                (.refreshed, .commit), (.committed, .checkSubject),
                (.subjectChecked(same: false), .end(.subjectChanged)),
            ])
    }

    @Test("A parsed invalid_grant condemns, with our own fence and version (SEC-58)")
    func invalidGrant() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(fence: 1, takenOver: false), .call(confirming: false)),
                (.rejected(invalidGrant: true, takenOverSettled: true), .condemn(.grantRevoked)),
                (.condemned(true), .finish(.sessionEnded)),
            ])
    }

    @Test("A condemnation that comes too late reads the winner's pair instead (SEC-55)")
    func lateCondemnation() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(fence: 1, takenOver: false), .call(confirming: false)),
                (.rejected(invalidGrant: true, takenOverSettled: true), .condemn(.grantRevoked)),
                (.condemned(false), .readAgain),
                (.read(version: 4, live: true, fresh: true, usable: true, refreshable: true), .finish(.useStored)),
            ])
    }

    @Test("After a take-over an invalid_grant does not condemn before a late winner had its time")
    func takenOver() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(fence: 2, takenOver: true), .call(confirming: false)),
                (.rejected(invalidGrant: true, takenOverSettled: false), .finish(.unavailable)),
            ])
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(fence: 2, takenOver: true), .call(confirming: false)),
                (.rejected(invalidGrant: true, takenOverSettled: true), .condemn(.grantRevoked)),
            ])
    }

    @Test("A lost answer is retried once; a refusal then is refresh_lost")
    func lostAnswer() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(fence: 1, takenOver: false), .call(confirming: false)),
                (.lost, .call(confirming: true)),
                (.rejected(invalidGrant: true, takenOverSettled: true), .condemn(.refreshLost)),
            ])
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(fence: 1, takenOver: false), .call(confirming: false)),
                (.lost, .call(confirming: true)), (.lost, .release(then: .unavailable)),
            ])
    }

    @Test(
        "No passing fault ends a session (guarantee 3)",
        arguments: [
            Input.notSent, .retryable, .unusable,
        ])
    func passingFaults(_ fault: Input) {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(fence: 1, takenOver: false), .call(confirming: false)),
                (fault, .release(then: .unavailable)),
            ])
        // A token that still lives is served although the early refresh failed.
        run(
            .expiring,
            [
                (early, .claim(version: 3)), (.claimed(fence: 1, takenOver: false), .call(confirming: false)),
                (fault, .release(then: .useStored)),
            ])
    }

    @Test("A refusal that is no invalid_grant is confirmed once and never condemns (SEC-58)")
    func otherRefusal() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(fence: 1, takenOver: false), .call(confirming: false)),
                (.rejected(invalidGrant: false, takenOverSettled: true), .call(confirming: true)),
                (.rejected(invalidGrant: false, takenOverSettled: true), .release(then: .unavailable)),
            ])
    }

    @Test("Who finds the claim taken waits and reads again (SEC-54)")
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

    @Test("A forced refresh does nothing when the version has moved")
    func forced() {
        run(
            .forced(fromVersion: 2),
            [(.read(version: 3, live: true, fresh: false, usable: true, refreshable: true), .finish(.useStored))])
        run(
            .forced(fromVersion: 3),
            [(.read(version: 3, live: true, fresh: true, usable: true, refreshable: true), .claim(version: 3))])
    }

    @Test("A pair for a newer version is dropped, one for an ended session is revoked (SEC-64)")
    func lateCommit() {
        let called: [(Input, Action)] = [
            (stale, .claim(version: 3)), (.claimed(fence: 1, takenOver: false), .call(confirming: false)),
            (.refreshed, .commit),
        ]
        run(.expiring, called + [(.superseded, .finish(.useStored))])
        run(.expiring, called + [(.ended, .revoke)])
    }

    @Test("What cannot be refreshed says so; while its token lives it is served")
    func notRefreshable() {
        run(
            .expiring,
            [(.read(version: 1, live: true, fresh: false, usable: true, refreshable: false), .finish(.useStored))])
        run(
            .forced(fromVersion: 1),
            [(.read(version: 1, live: true, fresh: true, usable: true, refreshable: false), .finish(.notRefreshable))])
    }

    @Test("An ended session stays ended; a store that fails is not an ending")
    func endings() {
        run(
            .expiring,
            [(.read(version: 1, live: false, fresh: false, usable: false, refreshable: false), .finish(.sessionEnded))])
        run(.expiring, [(stale, .claim(version: 3)), (.gone, .finish(.sessionEnded))])
        run(.expiring, [(stale, .claim(version: 3)), (.storeFailed, .finish(.storeUnavailable))])
    }
}
