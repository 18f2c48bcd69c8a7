/// The limits on the calls to one provider (SEC-120).
package struct CallLimits: Sendable, Equatable {
    /// `timeout`: the time from the call to the last byte of the answer.
    package var total: Duration
    /// `max_in_flight`: the most concurrent calls; a further call is refused before it is sent.
    package var concurrent: Int
    /// `breaker_failures`: the number of consecutive failures that opens the breaker.
    package var failuresToOpen: Int
    /// `breaker_pause`: the first pause of an open breaker.
    ///
    /// Each failed probe doubles the pause, up to a minute.
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
