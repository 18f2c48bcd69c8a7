/// The bounds of what one provider may cost (SEC-120).
package struct CallLimits: Sendable, Equatable {
    /// `timeout`: from the call to the last byte of the answer.
    package var total: Duration
    /// `max_in_flight`: calls at one time; one more is refused unsent.
    package var concurrent: Int
    /// `breaker_failures`: failures in a row that open the breaker.
    package var failuresToOpen: Int
    /// `breaker_pause`: how long it stays open at first; doubled up to a minute while the provider stays dead.
    package var pause: Duration

    package init(
        total: Duration = .seconds(15), concurrent: Int = 256,
        failuresToOpen: Int = 8, pause: Duration = .seconds(5)
    ) {
        self.total = total
        self.concurrent = concurrent
        self.failuresToOpen = failuresToOpen
        self.pause = pause
    }
}
