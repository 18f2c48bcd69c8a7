import Broker
import Synchronization

/// Limits the calls to one provider, with its breaker and a maximum number of concurrent calls.
package final class CallLimiter: Sendable {
    /// A call's evidence about the provider: it is reachable, it is unreachable, or the call shows neither.
    enum Outcome { case alive, dead, nothing }

    private struct State {
        var breaker: CircuitBreaker
        var inFlight = 0
        var failures = 0
    }

    private let state: Mutex<State>
    /// The largest number of calls to the provider that may be in progress.
    let places: Int
    private let clock: BrokerClock
    /// Called when the breaker opens or closes.
    private let turned: @Sendable (_ isOpen: Bool) -> Void

    init(limits: CallLimits, clock: BrokerClock, turned: @escaping @Sendable (_ isOpen: Bool) -> Void = { _ in }) {
        self.turned = turned
        state = Mutex(State(breaker: CircuitBreaker(failuresToOpen: limits.failuresToOpen, pause: limits.pause)))
        places = limits.concurrent
        self.clock = clock
    }

    /// The breaker's state, for the operator's page.
    package var breaker: CircuitBreaker.State { state.withLock { $0.breaker.state } }

    /// The number of consecutive calls that failed up to now, including answers with 500.
    var failuresInARow: Int { state.withLock { $0.failures } }

    /// The rest of an open breaker's pause; nil if a call is permitted.
    var refusesFor: Duration? {
        guard case .open(let until, _) = breaker else { return nil }
        let rest = until - clock.monotonic()
        return rest > .zero ? rest : nil
    }

    /// Counts a call as in progress; throws `notSent` if the breaker refuses the call, or if too many calls are in progress.
    ///
    /// Every call that began must be ended with `end`.
    func begin() throws(ProviderFailure) {
        let refusal: String? = state.withLock { state in
            guard state.inFlight < places else { return "too many calls in flight" }
            guard state.breaker.admit(at: clock.monotonic()) else { return "the breaker is open" }
            state.inFlight += 1
            return nil
        }
        if let refusal { throw .notSent(detail: refusal) }
    }

    /// Records the end of a call, and whether the call showed that the provider is reachable.
    ///
    /// A call may fail although the provider is reachable, for example with a 500.
    func end(_ outcome: Outcome, failed: Bool) {
        let (wasOpen, isOpen) = state.withLock { state in
            let wasOpen = state.breaker.isOpen
            state.inFlight -= 1
            if outcome != .nothing { state.failures = failed ? state.failures + 1 : 0 }
            switch outcome {
            case .alive: state.breaker.succeed()
            case .dead: state.breaker.fail(at: clock.monotonic())
            case .nothing: state.breaker.forget(at: clock.monotonic())
            }
            return (wasOpen, state.breaker.isOpen)
        }
        if wasOpen != isOpen { turned(isOpen) }
    }
}
