import Broker

/// The upstream that carries out the calls whose users have to be present.
struct SimulatedUpstream {
    let world: Simulation

    private func strikes(_ chance: Double) -> Bool { world.isFoul && world.scheduler.random.chance(chance) }

    /// The failure of a call, as the relay knows it.
    struct Failure: Error {
        let problem: BrokerProblem
        /// Whether the call provably never reached the upstream.
        var isUnsent = false
    }

    /// Sends a call.
    ///
    /// Throws if the call failed to reach the upstream, or if the answer was lost. Only a living process sends.
    func send(_ show: PresenceShow) async throws(Failure) {
        guard !show.process.isDead else { throw Failure(problem: BrokerProblem(.upstreamError)) }
        let isUnreached = strikes(world.weather.unreached)
        let isLost = strikes(world.weather.upstreamLoses)
        if !isUnreached { world.rules.reaches(show) }
        let answer = show.process.promise(false)
        world.scheduler.after(world.scheduler.random.number(1...400)) { answer.resolve(true) }
        let isHeard = await answer.wait(orCancelled: false)
        guard !isUnreached else { throw Failure(problem: BrokerProblem(.upstreamError), isUnsent: true) }
        guard isHeard, !isLost else { throw Failure(problem: BrokerProblem(.upstreamTimeout)) }
    }
}
