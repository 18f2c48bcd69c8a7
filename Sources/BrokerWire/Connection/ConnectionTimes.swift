/// The time limits of `ConnectionLimits` in nanoseconds, for the state machine.
package struct ConnectionTimes: Sendable, Equatable {
    let idle: Int64
    let idleInRequest: Int64
    let firstRequest: Int64
    let linger: Int64
    let lingerOfDroppedBody: Int64
    let halfClosed: Int64
    /// The lowest speed of a client's reading, and the interval of the checks.
    let reading: ProgressRate
    let check: Int64

    /// Creates the times from a connection's limits.
    ///
    /// A trusted proxy may be silent for longer than other peers.
    package init(_ limits: ConnectionLimits, ofProxy: Bool = false) {
        idle = (ofProxy ? limits.idle : min(limits.idle, limits.idleOfStrangers)).nanoseconds
        idleInRequest = min(limits.idle, limits.idleInRequest).nanoseconds
        firstRequest = limits.firstRequest.nanoseconds
        linger = limits.linger.nanoseconds
        lingerOfDroppedBody = limits.lingerOfDroppedBody.nanoseconds
        halfClosed = limits.halfClosed.nanoseconds
        check = max(limits.rateWindow.nanoseconds / 10, 1_000_000)
        reading = ProgressRate(
            bytesPerSecond: limits.minimumRate, window: limits.rateWindow.nanoseconds,
            grace: limits.rateGrace.nanoseconds)
    }
}
