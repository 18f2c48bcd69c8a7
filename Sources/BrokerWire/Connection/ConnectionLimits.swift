/// The limits of one connection (SEC-102, SEC-105).
package struct ConnectionLimits: Sendable {
    /// The largest number of bytes of one header field, or of the request target.
    package var headerField = 8 * 1024
    /// The largest number of bytes of the request target and all header fields together.
    package var headers = 16 * 1024
    /// The largest number of header fields of a request.
    package var headerFields = 64
    /// The longest time that a connection may be idle between two requests.
    ///
    /// The limit is longer than the 60 s of nginx and AWS's balancer, because these must close first.
    package var idle: Duration = .seconds(75)
    /// The longest time between two requests for peers other than trusted proxies.
    ///
    /// If `idle` is shorter, `idle` applies.
    package var idleOfStrangers: Duration = .seconds(75)
    /// The longest time without input in two cases: before the head of the first request; and within a request.
    ///
    /// If `idle` is shorter, `idle` applies.
    package var idleInRequest: Duration = .seconds(60)
    /// The time that a new connection has to send its first request before a server that shuts down closes it.
    ///
    /// The first request is probably on its way already, and the client may have only this connection.
    package var firstRequest: Duration = .seconds(1)
    /// The longest time that the broker discards input after it closed the output, so that the client receives the answer.
    package var linger: Duration = .seconds(2)
    /// The limit `linger` for a request whose body is discarded.
    package var lingerOfDroppedBody: Duration = .seconds(1)
    /// The largest number of bytes of a discarded body that the broker reads.
    package var droppedBody = 64 * 1024
    /// The longest time without output to a client that has closed its sending side, before its safe request is cancelled.
    ///
    /// To the broker, a proxy that has aborted the request looks like a client that still reads.
    package var halfClosed: Duration = .seconds(10)
    /// The smallest number of bytes per second that a client has to read while the broker waits to send data.
    package var minimumRate = 1024
    /// The interval over which the client's reading speed is averaged.
    package var rateWindow: Duration = .seconds(30)
    /// The time before the first measurement of the reading speed.
    ///
    /// It begins when the broker begins to wait for the client.
    package var rateGrace: Duration = .seconds(10)

    package init() {}

    /// Allows one large cookie of at most `bytes` bytes in addition to the other fields.
    package mutating func allowLargeCookie(of bytes: Int) {
        headerField += bytes
        headers += bytes
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
