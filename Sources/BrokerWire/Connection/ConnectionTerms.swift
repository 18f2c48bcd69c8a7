/// What holds for a connection from its first byte to its last.
package struct ConnectionTerms: Sendable {
    let limits: ConnectionLimits
    let times: ConnectionTimes
    /// The certificate that is served; nil for plain HTTP.
    let tls: ServerTLS?

    /// Creates the terms of connections with so much to take.
    package init(_ limits: ConnectionLimits = ConnectionLimits(), tls: ServerTLS? = nil) {
        self.limits = limits
        self.tls = tls
        times = ConnectionTimes(limits)
    }
}
