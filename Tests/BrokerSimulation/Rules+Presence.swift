import Broker

/// The promises about calls that need the user's presence (guarantee 9).
extension Rules {
    /// The largest difference between the corrected clocks of processes.
    private static let clockTolerance = 2_000

    /// Judges a call that may have reached the upstream.
    func reaches(_ show: PresenceShow) {
        let (proof, now) = (show.proof, world.scheduler.now)
        proof.reached += 1
        world.say("\(show.words) is sent")
        if proof.reached > 1 { fault("one proof of presence sent \(proof.reached) calls") }
        if !proof.isByPresenceKey { fault("a proof by another key than the session's presence key sent a call") }
        if proof.request != show.request || proof.session != show.session {
            fault("a proof of presence for another call sent a call")
        }
        if now > proof.endsAt + Self.clockTolerance, !world.weather.clocksStep {
            fault("a proof of presence sent a call \(now - proof.endsAt) ms after its end")
        }
    }

    /// Judges the refusal of a call that its user has confirmed.
    ///
    /// If clocks step in this weather, a nonce may end early. Then only refusals because of an earlier use or the limit are
    /// judged.
    func refused(_ show: PresenceShow, _ problem: BrokerProblem) {
        world.say("\(show.words) is refused: \(problem.code.rawValue)")
        switch problem.presence?.refusal {
        case .replayed?:
            if show.isOnlyUse { fault("a proof of presence was refused as used, and no call was sent with it") }
        case .limited?:
            if !world.presences.mayBeLimited(show.session) { fault("a session has shown presence too seldom for 429") }
        case .some(let refusal):
            guard show.isFirst, !world.weather.clocksStep else { return }
            fault("a user's presence was refused: \(refusal)")
        case nil:
            guard world.weather.isFine, problem.code == .stepUpFailed || problem.code == .proofInvalid else { return }
            fault("a call with presence was refused in fine weather: \(problem.code.rawValue)")
        }
    }

    /// Reports that another presence key was taken for a session that has one.
    func replacedPresence() { fault("a session with a presence key took another one") }

    /// Judges the refusal of a presence key, which is the first that the session's app registers.
    func refusedKey(_ problem: BrokerProblem) {
        guard let refusal = problem.presence?.refusal, refusal != .limited, !world.weather.clocksStep else { return }
        fault("a session's first presence key was refused: \(refusal)")
    }
}
