import Broker

/// The upstream that carries out the calls with a presence proof.
struct SimulatedUpstream {
    let world: Simulation

    private func strikes(_ chance: Double) -> Bool { world.isFoul && world.scheduler.random.chance(chance) }

    /// A failed call to the upstream, as the relay learns of it.
    struct Failure: Error {
        let problem: BrokerProblem
        /// Whether the call provably never reached the upstream.
        var isUnsent = false
    }

    /// Sends a call to the upstream.
    ///
    /// Throws if the call did not reach the upstream, if the upstream's answer was lost, or if the sending process is dead.
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
