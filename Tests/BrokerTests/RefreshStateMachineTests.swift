import BrokerTestSupport
import Testing

@testable import Broker

/// The refresh machine, as tables of events and expected actions.
///
/// No clock, store or provider is involved.
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

    @Test("The stored token is fresh → it is served without a call")
    func fresh() {
        run(
            .expiring,
            [(.read(version: 1, live: true, fresh: true, usable: true, refreshable: true), .finish(.useStored))])
    }

    @Test(
        "A refresh succeeds → the machine claims, calls, commits, checks the user and serves the token, in this order")
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
        "A session's access token is withheld → callers are refused; after a pause, the next caller causes another call"
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
        // After the clock was set back, the withheld token seems to be old. The caller must still be refused.
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)), (.refreshed, .commit),
                (.committed, .checkSubject), (.subjectChecked(.same), .readAgain),
                (read(4, .before), .finish(.unavailable)),
            ])
    }

    @Test(
        "A refresh brings a token pair → stored, then its user is checked; another user → the session ends (SEC-56, SEC-59)"
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

    @Test("A refresh gets `invalid_grant` → the session is condemned, and the caller gets `session_ended` (SEC-58)")
    func invalidGrant() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.rejected(.invalidGrant), .condemn(.grantRevoked)),
                (.condemned(true), .finish(.sessionEnded)),
            ])
    }

    @Test(
        "A refresh would condemn its session, but another process stored a newer pair first → the newer pair is served (SEC-55)"
    )
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

    @Test(
        "A refresh took over a claim and gets `invalid_grant` → it condemns the session once the former owner had time to commit"
    )
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

    @Test("A refresh's answer is lost → one retry; the retry is refused → the session ends as `refresh_lost`")
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
        "A refresh fails for a temporary reason → the session stays, and a token that still lives is served (guarantee 3)",
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
        // The refresh before the token's end failed. The token is still valid, so the caller gets it.
        run(
            .expiring,
            [
                (early, .claim(version: 3)), (granted, .call(confirming: false)),
                (fault, .release(then: .useStored)),
            ])
    }

    @Test(
        "A refresh gets an unclear refusal → one more call; a second unclear refusal → 503, and the session stays (SEC-58)"
    )
    func otherRefusal() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.rejected(.unclear), .call(confirming: true)),
                (.rejected(.unclear), .release(then: .unavailable)),
            ])
    }

    @Test(
        "Another process has the refresh claim → the caller waits and reads again, or gets a token that still lives (SEC-54)"
    )
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

    @Test(
        "An upstream refuses a token, but the stored token is already newer → the stored token is served without a call"
    )
    func forced() {
        run(
            .forced(fromVersion: 2),
            [(.read(version: 3, live: true, fresh: false, usable: true, refreshable: true), .finish(.useStored))])
        run(
            .forced(fromVersion: 3),
            [(.read(version: 3, live: true, fresh: true, usable: true, refreshable: true), .claim(version: 3))])
    }

    @Test(
        "A refreshed pair comes after a newer one was stored → the row is read again; after the session's end → revoked (SEC-64)"
    )
    func lateCommit() {
        let called: [(Input, Action)] = [
            (stale, .claim(version: 3)), (granted, .call(confirming: false)),
            (.refreshed, .commit),
        ]
        run(.expiring, called + [(.superseded, .readAgain), (renewed, .checkSubject)])
        run(.expiring, called + [(.ended, .revoke)])
    }

    @Test(
        "A session has no refresh token → its token is served until it expires, and a forced refresh gets `not_refreshable`"
    )
    func notRefreshable() {
        run(
            .expiring,
            [(.read(version: 1, live: true, fresh: false, usable: true, refreshable: false), .finish(.useStored))])
        run(
            .forced(fromVersion: 1),
            [(.read(version: 1, live: true, fresh: true, usable: true, refreshable: false), .finish(.notRefreshable))])
    }

    @Test("The stored tokens' subject is unchecked → it is checked before any caller gets the tokens (SEC-59)")
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
        "A refused refresh may mean a dead grant → the claim is released; enough such refusals → session condemned (guarantee 2)"
    )
    func emptyRefusals() {
        let called: [(Input, Action)] = [(stale, .claim(version: 3)), (granted, .call(confirming: false))]
        run(.expiring, called + [(.rejected(.counted(enough: false)), .release(then: .unavailable))])
        run(.expiring, called + [(.rejected(.counted(enough: true)), .condemn(.grantRevoked))])
    }

    @Test(
        "The row records that a refresh's answer may be lost, and a refresh gets `invalid_grant` → `refresh_lost` (SEC-56)"
    )
    func lossKnown() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (.claimed(lossKnown: true, settled: true), .call(confirming: false)),
                (.rejected(.invalidGrant), .condemn(.refreshLost)),
            ])
    }

    @Test(
        "A refresh gets an unclear refusal, then `invalid_grant` → the session ends as `grant_revoked`, not `refresh_lost`"
    )
    func unclearFirst() {
        run(
            .expiring,
            [
                (stale, .claim(version: 3)), (granted, .call(confirming: false)),
                (.rejected(.unclear), .call(confirming: true)), (.rejected(.invalidGrant), .condemn(.grantRevoked)),
            ])
    }

    @Test(
        "A session has ended before a refresh reads or claims its row → `session_ended`; the store fails → `store_unavailable`"
    )
    func endings() {
        run(
            .expiring,
            [(.read(version: 1, live: false, fresh: false, usable: false, refreshable: false), .finish(.sessionEnded))])
        run(.expiring, [(stale, .claim(version: 3)), (.gone, .finish(.sessionEnded))])
        run(.expiring, [(stale, .claim(version: 3)), (.storeFailed, .finish(.storeUnavailable))])
    }
}
