import Broker
import BrokerRelay
import Synchronization

/// Judges presence as the test chooses, and counts the proofs that were taken and released.
final class Presences: Sendable {
    struct Counts: Equatable {
        var judged = 0
        var taken = 0
        var givenBack = 0
    }

    private let state = Mutex(Counts())
    let judgement, taking: ProblemCode?

    init(judgement: ProblemCode? = nil, taking: ProblemCode? = nil) {
        self.judgement = judgement
        self.taking = taking
    }

    var counts: Counts { state.withLock { $0 } }

    func judge() throws(BrokerProblem) -> JudgedPresence {
        state.withLock { $0.judged += 1 }
        if let judgement { throw BrokerProblem(judgement) }
        return JudgedPresence { [self] () async throws(BrokerProblem) in
            state.withLock { $0.taken += 1 }
            if let taking { throw BrokerProblem(taking) }
        } giveBack: { [self] in
            state.withLock { $0.givenBack += 1 }
        }
    }

    /// Returns a `require` list in which the calls of an entry need presence.
    static func entries(_ text: String = "ANY /pay/**") throws -> [UpstreamRequirement] {
        var demand = StepUpDemand()
        demand.presence = true
        return [try UpstreamRequirement(text, demand)]
    }
}
