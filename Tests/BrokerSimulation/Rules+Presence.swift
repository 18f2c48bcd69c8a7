import Broker

/// The promises about calls that their user has to confirm (guarantee 9).
extension Rules {
    /// The largest difference between two processes' clocks after their correction by the store's clock.
    private static let clockTolerance = 2_000

    /// Judges a call with a presence proof that may have reached the upstream.
    func reaches(_ show: PresenceShow) {
        let (proof, now) = (show.proof, world.scheduler.now)
        proof.reached += 1
        world.say("\(show.words) is sent")
        if proof.reached > 1 { fault("\(proof.reached) calls were sent with one presence proof") }
        if !proof.isByPresenceKey {
            fault("a call was sent with a proof by another key than the session's presence key")
        }
        if proof.request != show.request || proof.session != show.session {
            fault("a call was sent with a presence proof that is for another call")
        }
        if now > proof.endsAt + Self.clockTolerance, !world.weather.clocksStep {
            fault("a call was sent \(now - proof.endsAt) ms after the end of its presence proof")
        }
    }

    /// Judges the refusal of a call that its user has confirmed.
    ///
    /// If clocks step in this weather, a nonce may end early. Then the refusal is judged only in two cases: the broker's reason
    /// is an earlier use of the proof; or the reason is the limit.
    func refused(_ show: PresenceShow, _ problem: BrokerProblem) {
        world.say("\(show.words) is refused: \(problem.code.rawValue)")
        switch problem.presence?.refusal {
        case .replayed?:
            if show.isOnlyUse { fault("a presence proof was refused as used, although it is unused") }
        case .limited?:
            if !world.presences.mayBeLimited(show.session) {
                fault("a presence proof was refused with 429 before the session had reached its limit")
            }
        case .some(let refusal):
            guard show.isFirst, !world.weather.clocksStep else { return }
            fault("a correct presence proof was refused at its first use: \(refusal)")
        case nil:
            guard world.weather.isFine, problem.code == .stepUpFailed || problem.code == .proofInvalid else { return }
            fault("a call with a correct presence proof was refused in fine weather: \(problem.code.rawValue)")
        }
    }

    /// Reports a fault: the broker accepted another presence key for a session that already has one.
    func replacedPresence() { fault("a session that has a presence key accepted another presence key") }

    /// Judges the refusal to register a presence key, although the session has none yet.
    func refusedKey(_ problem: BrokerProblem) {
        guard let refusal = problem.presence?.refusal, refusal != .limited, !world.weather.clocksStep else { return }
        fault("a session's first presence key was refused: \(refusal)")
    }
}
