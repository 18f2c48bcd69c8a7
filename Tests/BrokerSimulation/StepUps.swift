import Broker

/// The step-ups of a run and their results, by exchange.
final class StepUps {
    /// A user's sign-in for a session.
    struct SignIn {
        let code: String
        let session: Digest
    }

    private var begun: [Digest: SignIn] = [:]
    /// The codes whose step-ups were stored.
    private(set) var stored: Set<String> = []
    /// The time of each session's last step-up.
    private(set) var lastOf: [Digest: Int] = [:]

    /// Notes a sign-in under the key of its exchange.
    func begins(_ signIn: SignIn, as exchange: Digest) { begun[exchange] = signIn }

    /// Notes that an exchange was settled without a change of the session, because a later step-up was stored before.
    func settles(_ exchange: Digest) {
        if let signIn = begun[exchange] { stored.insert(signIn.code) }
    }

    /// Notes that a step-up was stored, and returns its sign-in.
    func stores(_ commit: StepUpCommit, at moment: Int) -> SignIn? {
        lastOf[commit.tokenDigest] = moment
        guard let signIn = begun[commit.exchange] else { return nil }
        stored.insert(signIn.code)
        return signIn
    }
}

/// The checks of step-ups.
extension Simulation {
    /// Notes a sign-in that steps a session up.
    func begins(stepUp code: String, of session: Digest) {
        stepUps.begins(
            StepUps.SignIn(code: code, session: session), as: vault.index(.code, ["as", code]))
    }

    func steppedUpAt(_ session: Digest) -> Int? { stepUps.lastOf[session] }

    /// Checks the user, the session, the sign-in and the access token of a stored step-up.
    func check(_ commit: StepUpCommit) {
        guard let signIn = stepUps.stores(commit, at: scheduler.now),
            let family = authority.family(of: signIn.code)
        else { return rules.fault("an unknown step-up was stored") }
        if signIn.session != commit.tokenDigest {
            rules.fault("the step-up of \(signIn.code) was stored in another session than its own")
        }
        if family.isUnfit {
            say("FAULT: the step-up of \(signIn.code) was stored, although its sign-in is too weak or another user's")
            verdict.endedSessionsAlive += 1
        }
        if weather.nonces == .unbound, accessToken(commit.tokens, of: commit.tokenDigest) != "at-\(family.number)-0" {
            rules.fault("the step-up of \(signIn.code) was stored with a wrong access token")
        }
    }

    /// Checks that each sign-in whose tokens a process received reached its session, and that refused sign-ins' grants ended.
    func judgeStepUps() async {
        for code in refusedCodes.sorted() where stepUps.stored.contains(code) {
            say("FAULT: the step-up of \(code) was stored, but its user was told that it failed")
            verdict.answeredWritesLost += 1
        }
        for call in authority.calls where !call.process.isDead {
            guard let family = call.family, let code = call.code, let session = authority.session(of: code),
                call.isDelivered, family.mishaps.isEmpty, !family.identityFailed
            else { continue }
            if family.isUnfit {
                // The broker does not revoke a token that the session may have had between two reads (decision 70).
                let mayBeItsOwn = standing.hadTwoReplacementsAtOnce(session, in: call.sentAt..<call.sentAt + 30_000)
                if family.death == nil, !family.hasNoRefreshToken, weather.reach == .token, !mayBeItsOwn {
                    say("FAULT: the grant of \(code) lives at the provider, although the step-up was refused")
                    verdict.endedSessionsAlive += 1
                }
                continue
            }
            guard family.hasNoRefreshToken, !stepUps.stored.contains(code),
                !weather.clocksStep
            else { continue }
            if await hasEnded(session) { continue }
            say("FAULT: the step-up of \(code) is lost, although a process had the provider's answer")
            verdict.signInsLost += 1
        }
    }
}
