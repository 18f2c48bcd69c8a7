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
