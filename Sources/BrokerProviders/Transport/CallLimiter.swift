import Broker
import Synchronization

/// Limits one provider's calls by its breaker and by the number in flight.
package final class CallLimiter: Sendable {
    /// The verdict of a call on the provider.
    enum Outcome { case alive, dead, nothing }

    private struct State {
        var breaker: CircuitBreaker
        var inFlight = 0
        var failures = 0
    }

    private let state: Mutex<State>
    /// The number of calls that may be in flight.
    let places: Int
    private let clock: BrokerClock
    /// Hears when the breaker opens, and when it closes.
    private let turned: @Sendable (_ isOpen: Bool) -> Void

    init(limits: CallLimits, clock: BrokerClock, turned: @escaping @Sendable (_ isOpen: Bool) -> Void = { _ in }) {
        self.turned = turned
        state = Mutex(State(breaker: CircuitBreaker(failuresToOpen: limits.failuresToOpen, pause: limits.pause)))
        places = limits.concurrent
        self.clock = clock
    }

    /// The breaker's state, for the operator's page.
    package var breaker: CircuitBreaker.State { state.withLock { $0.breaker.state } }

    /// The number of the last calls that failed in a row, those that were answered 500 included.
    var failuresInARow: Int { state.withLock { $0.failures } }

    /// The time for which the open breaker still refuses calls; nil when it lets one out.
    var refusesFor: Duration? {
        guard case .open(let until, _) = breaker else { return nil }
        let rest = until - clock.monotonic()
        return rest > .zero ? rest : nil
    }

    /// Counts a call in; throws `notSent` when it may not be made.
    ///
    /// Every call that was counted in is counted out by `end`.
    func begin() throws(ProviderFailure) {
        let refusal: String? = state.withLock { state in
            guard state.inFlight < places else { return "too many calls in flight" }
            guard state.breaker.admit(at: clock.monotonic()) else { return "the breaker is open" }
            state.inFlight += 1
            return nil
        }
        if let refusal { throw .notSent(detail: refusal) }
    }

    /// Counts a call out, with what it says about the provider; a call may have failed although the provider is alive.
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

/// Decides whether a provider may be called (SEC-120): closed until failures come in a row, open for a pause that
/// doubles up to a minute, then half open for one probe.
///
/// Pure: the caller brings the monotonic time.
package struct CircuitBreaker: Sendable, Equatable {
    /// The breaker's state.
    package enum State: Sendable, Equatable {
        case closed(failures: Int)
        /// Refuses until the moment; the pause is what the next opening doubles.
        case open(until: Duration, pause: Duration)
        /// One probe is under way.
        case halfOpen(pause: Duration)
    }

    /// The longest pause.
    package static let longestPause = Duration.seconds(60)

    package private(set) var state = State.closed(failures: 0)

    /// Whether calls are refused, a single probe aside.
    var isOpen: Bool {
        if case .closed = state { false } else { true }
    }
    private let failuresToOpen: Int
    private let firstPause: Duration

    package init(failuresToOpen: Int, pause: Duration) {
        self.failuresToOpen = failuresToOpen
        firstPause = pause
    }

    /// Returns whether a call may go out now; an open breaker whose pause is over lets one probe out.
    package mutating func admit(at now: Duration) -> Bool {
        switch state {
        case .closed: return true
        case .halfOpen: return false
        case .open(let until, let pause):
            guard now >= until else { return false }
            state = .halfOpen(pause: pause)
            return true
        }
    }

    /// Notes a call that the provider answered.
    package mutating func succeed() { state = .closed(failures: 0) }

    /// Notes a call that failed because the provider was not there.
    package mutating func fail(at now: Duration) {
        switch state {
        case .closed(let failures):
            state =
                failures + 1 < failuresToOpen
                ? .closed(failures: failures + 1) : .open(until: now + firstPause, pause: firstPause)
        case .halfOpen(let pause):
            let longer = min(pause * 2, Self.longestPause)
            state = .open(until: now + longer, pause: longer)
        case .open: break
        }
    }

    /// Notes a call that says nothing about the provider (it was cancelled here).
    package mutating func forget(at now: Duration) {
        if case .halfOpen(let pause) = state { state = .open(until: now, pause: pause) }
    }
}
