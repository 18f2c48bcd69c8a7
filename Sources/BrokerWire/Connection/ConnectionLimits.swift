/// The limits of one connection (SEC-102, SEC-105).
package struct ConnectionLimits: Sendable {
    /// The bytes of one header field, or of the request target.
    package var headerField = 8 * 1024
    /// The bytes of the request target and all header fields.
    package var headers = 16 * 1024
    /// The header fields of a request.
    package var headerFields = 64
    /// The longest silence between requests.
    ///
    /// nginx and AWS's balancer must be the first to close, after 60 s.
    package var idle: Duration = .seconds(75)
    /// The longest silence of peers other than trusted proxies.
    package var idleOfStrangers: Duration = .seconds(75)
    /// The longest silence before the head of the first request, and within a request.
    package var idleInRequest: Duration = .seconds(60)
    /// The time for a new connection's first request, which a draining server also grants.
    ///
    /// The request is probably on its way, and its client may have only this connection.
    package var firstRequest: Duration = .seconds(1)
    /// The time for reading and discarding the rest of a closed connection's input, so that the answer arrives.
    package var linger: Duration = .seconds(2)
    /// The reading time for the rest of a body that its route leaves unread.
    package var lingerOfDroppedBody: Duration = .seconds(1)
    /// The most bytes of such a body that are read.
    package var droppedBody = 64 * 1024
    /// The time for a safe request of a half-closed client without a written byte.
    ///
    /// An aborting proxy looks like such a client.
    package var halfClosed: Duration = .seconds(10)
    /// The fewest bytes per second that a client has to read while it is sent data.
    package var minimumRate = 1024
    /// The averaging time of that rate.
    package var rateWindow: Duration = .seconds(30)
    /// The time before averaging begins, counted from the first wait for the client.
    package var rateGrace: Duration = .seconds(10)

    package init() {}
}

/// The times of `ConnectionLimits` in nanoseconds, for the state machine.
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
    /// Only a trusted proxy may be silent for longer than a stranger.
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

extension Duration {
    /// The duration in nanoseconds, clamped to the range of `Int64`.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        return whole + attoseconds / 1_000_000_000
    }
}
