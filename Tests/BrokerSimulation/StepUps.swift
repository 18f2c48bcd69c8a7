import Broker

/// The step-ups of a run and their results.
///
/// The key is that of the step-up's exchange.
final class StepUps {
    /// A sign-in of a user to step a session up.
    struct SignIn {
        let code: String
        let session: Digest
    }

    private var begun: [Digest: SignIn] = [:]
    /// The codes of all step-ups that were stored.
    private(set) var stored: Set<String> = []
    /// The time when each session was last stepped up.
    private(set) var lastOf: [Digest: Int] = [:]

    /// Notes a step-up's sign-in, under the key of the exchange that will redeem its code.
    func begins(_ signIn: SignIn, as exchange: Digest) { begun[exchange] = signIn }

    /// Notes that a step-up's exchange was completed, but left the session unchanged, because a later step-up was stored
    /// before.
    func settles(_ exchange: Digest) {
        if let signIn = begun[exchange] { stored.insert(signIn.code) }
    }

    /// Notes that a step-up was stored, and returns its sign-in; nil if the step-up is unknown.
    func stores(_ commit: StepUpCommit, at moment: Int) -> SignIn? {
        lastOf[commit.tokenDigest] = moment
        guard let signIn = begun[commit.exchange] else { return nil }
        stored.insert(signIn.code)
        return signIn
    }
}

/// The checks of step-ups.
extension Simulation {
    /// Notes that a user signs in to step a session up.
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

    /// Makes two checks: if a process received the tokens of a step-up, the session has this step-up; if a step-up was refused,
    /// its grant has ended.
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
                // Two refreshes may have replaced the session's token between two reads of the broker. The broker then cannot
                // know whether the session had this token, so it does not revoke the token (decision 70).
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
