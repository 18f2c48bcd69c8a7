import Broker

/// The promises about a session that gets access tokens for several APIs with one refresh token.
extension Rules {
    /// Checks a token call that a process is about to send for a session.
    ///
    /// A refresh token is spent as soon as the process has the provider's answer. Within a claim, the process may send the same
    /// refresh token for the same API a second time only after a lost answer.
    func sends(_ call: TokenCall, of session: Digest, _ calls: [TokenCall]) {
        if let target = call.target { checkIsAllowed(target, call, session) }
        guard !call.isExchange else { return }
        let others = calls.filter {
            $0 !== call && $0.process === call.process && $0.family === call.family && $0.code == nil && !$0.isExchange
                && $0.token == call.token
        }
        let isAnswered = others.contains { other in
            switch other.state {
            case .delivered, .written: true
            case .sent, .failed: false
            }
        }
        if isAnswered {
            fault(
                "process \(call.process.number) sends refresh token \(call.token) again, although it has an answer to that token"
            )
        }
        guard !call.isConfirming, !call.isRepeat, let claimed = claimedAt(call.process, session) else { return }
        if others.contains(where: { $0.sentAt >= claimed && $0.target == call.target && !$0.isChallenged }) {
            fault("process \(call.process.number) sends refresh token \(call.token) twice under one claim")
        }
    }

    /// Reports a fault if the provider has refused the call's target shortly before.
    private func checkIsAllowed(_ target: TokenTarget, _ call: TokenCall, _ session: Digest) {
        let (process, now) = (call.process, call.sentAt)
        if refusedTargets.isTooSoon(target, of: session, by: process, at: now) {
            fault(
                "process \(process.number) requests \(SimulatedTarget(target).name) too soon after its refusal to the session"
            )
        }
        guard world.troubledAt + 30_000 < now, !world.weather.clocksStep else { return }
        if refusedTargets.isTooSoonForClient(target, of: session, by: process, at: now) {
            fault(
                "process \(process.number) requests \(SimulatedTarget(target).name) too soon after its refusal to the client"
            )
        }
    }

    /// Notes that the provider has refused the target of a process's last call for a session.
    func refusedTarget(of session: Digest?, by process: SimulatedProcess, _ calls: [TokenCall]) {
        guard let session, let own = world.family(of: session) else { return }
        // The call may belong to another grant than the session's. This happens if a step-up brought an access token without a
        // refresh token.
        let last = calls.last { call in
            guard call.process === process, call.target != nil, let family = call.family else { return false }
            return family === own || (family.hasNoRefreshToken && family.person == own.person)
        }
        guard let target = last?.target else { return }
        refusedTargets.refused(target, of: session, by: process, at: world.scheduler.now)
    }

    /// Checks that all other token calls of the same grant have ended when this call is sent.
    func isAlone(_ call: TokenCall, _ calls: [TokenCall]) {
        guard call.code == nil, let family = call.family, call.process.isUndisturbed(since: call.sentAt - 1) else {
            return
        }
        let other = calls.first { other in
            guard other !== call, other.family === family, other.code == nil, case .sent = other.state,
                other.process.isUndisturbed(since: other.sentAt)
            else { return false }
            return !isOvertaken(other, by: call, calls)
        }
        if let other {
            fault(
                "calls for grant \(family.number) overlap, of processes \(other.process.number) and \(call.process.number)"
            )
        }
    }

    /// Returns whether the refresh token of the newer call comes from a third call, whose process was late.
    ///
    /// A mishap delayed this process, so the process of the older call took over its claim. The delayed process still stored
    /// its token pair before the older call was answered.
    private func isOvertaken(_ older: TokenCall, by newer: TokenCall, _ calls: [TokenCall]) -> Bool {
        guard !older.isExchange, !newer.isExchange, older.token < newer.token else { return false }
        // The answer to a step-up has already brought the refresh token that the older call's answer contains.
        if let family = newer.family, world.authority.hasRepeated("rt-\(family.number)-\(newer.token)") { return true }
        return calls.contains { winner in
            guard winner.family === newer.family, winner.code == nil, case .written = winner.state,
                winner.sentAt < older.sentAt
            else { return false }
            return winner.token == newer.token - 1 && !winner.process.isUndisturbed(since: winner.sentAt)
        }
    }

    /// Checks that a session was condemned only because of a refresh of the session's own token, and never because of a call
    /// for another API.
    func condemned(
        _ family: Family?, by process: SimulatedProcess, _ reason: EndReason, _ calls: [TokenCall]
    ) {
        guard let family, reason == .grantRevoked || reason == .refreshLost else { return }
        let last = calls.last { $0.process === process && $0.family === family && $0.code == nil }
        if last?.target != nil {
            fault("the session of grant \(family.number) was ended because of an answer to a call with a target")
        }
    }
}
