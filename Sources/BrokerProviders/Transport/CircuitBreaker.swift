/// Decides whether a provider may be called (SEC-120).
///
/// The breaker is closed until consecutive failures open it. An open breaker refuses calls for a pause. After the pause, the
/// breaker is half open, and permits one call, the probe. An answered probe closes the breaker. A failed probe opens it again,
/// for twice the pause, up to a minute. The type is pure, because the caller passes the monotonic time.
package struct CircuitBreaker: Sendable, Equatable {
    /// The breaker's state.
    package enum State: Sendable, Equatable {
        case closed(failures: Int)
        /// Calls are refused until this time; if the probe then fails, the next pause is twice as long.
        case open(until: Duration, pause: Duration)
        /// One probe is in progress.
        case halfOpen(pause: Duration)
    }

    /// The longest pause.
    package static let longestPause = Duration.seconds(60)

    package private(set) var state = State.closed(failures: 0)

    /// Whether calls are refused, except for a single probe.
    var isOpen: Bool {
        if case .closed = state { false } else { true }
    }
    private let failuresToOpen: Int
    private let firstPause: Duration

    package init(failuresToOpen: Int, pause: Duration) {
        self.failuresToOpen = failuresToOpen
        firstPause = pause
    }

    /// Returns whether a call may be sent now; after its pause, an open breaker permits one probe.
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

    /// Records a call that the provider answered.
    package mutating func succeed() { state = .closed(failures: 0) }

    /// Records a call that failed because the provider was unreachable.
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

    /// Records a call that the broker cancelled, which proves nothing about the provider.
    package mutating func forget(at now: Duration) {
        if case .halfOpen(let pause) = state { state = .open(until: now, pause: pause) }
    }
}
