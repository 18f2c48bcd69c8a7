/// The bounds of one connection (SEC-102, SEC-105).
package struct ConnectionLimits: Sendable {
    /// Bytes of one header field, or of the request target.
    package var headerField = 8 * 1024
    /// Bytes of the request target and all header fields.
    package var headers = 16 * 1024
    /// Header fields in a request.
    package var headerFields = 64
    /// The longest silence of a connection between requests.
    ///
    /// nginx and AWS's balancer have to close first, after 60 s.
    package var idle: Duration = .seconds(75)
    /// The longest silence of peers other than trusted proxies.
    package var idleOfStrangers: Duration = .seconds(75)
    /// The longest silence before the first request's head has come, and within a request.
    package var idleInRequest: Duration = .seconds(60)
    /// The time after its acceptance for which a connection's first request is waited for although the server drains:
    /// it is on its way, and its client has no other connection to fall back on.
    package var firstRequest: Duration = .seconds(1)
    /// The time for which a closed connection's remaining input is read and thrown away, so that the answer arrives.
    package var linger: Duration = .seconds(2)
    /// The linger for the rest of a body that its route leaves unread.
    package var lingerOfDroppedBody: Duration = .seconds(1)
    /// The bytes of such a body that are read.
    package var droppedBody = 64 * 1024
    /// The time for which a safe request of a client that sends nothing more goes on without a byte written: a proxy's
    /// abort looks like that, too.
    package var halfClosed: Duration = .seconds(10)
    /// The bytes a second that a client has to read while it is sent something.
    package var minimumRate = 1024
    /// The time over which that is averaged.
    package var rateWindow: Duration = .seconds(30)
    /// The time from when the client is first waited for that does not count.
    package var rateGrace: Duration = .seconds(10)

    package init() {}
}

/// The times of `ConnectionLimits`, in nanoseconds, as the state machine takes them.
package struct ConnectionTimes: Sendable, Equatable {
    let idle: Int64
    let idleInRequest: Int64
    let firstRequest: Int64
    let linger: Int64
    let lingerOfDroppedBody: Int64
    let halfClosed: Int64
    /// The speed at which a client has to read, and how often to look.
    let reading: ProgressRate
    let check: Int64

    /// Creates the times of a connection's limits; only a trusted proxy may be silent for longer than a stranger.
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
    /// The duration in nanoseconds, the largest there is where it is longer.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        return whole + attoseconds / 1_000_000_000
    }
}
