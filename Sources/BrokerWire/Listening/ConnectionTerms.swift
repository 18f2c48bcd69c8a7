/// The certificate and the limits of a connection, which stay the same until the connection closes.
package struct ConnectionTerms: Sendable {
    let limits: ConnectionLimits
    private let times: ConnectionTimes
    private let timesOfProxy: ConnectionTimes
    private let isProxy: @Sendable (PeerAddress) -> Bool
    /// The served certificate; nil for plain HTTP.
    let tls: ServerTLS?

    /// Creates the terms of connections with these limits.
    ///
    /// `isProxy` returns whether a peer is a trusted proxy.
    package init(
        _ limits: ConnectionLimits = ConnectionLimits(), tls: ServerTLS? = nil,
        isProxy: @escaping @Sendable (PeerAddress) -> Bool = { _ in false }
    ) {
        self.limits = limits
        self.tls = tls
        self.isProxy = isProxy
        times = ConnectionTimes(limits)
        timesOfProxy = ConnectionTimes(limits, ofProxy: true)
    }

    /// Returns the time limits for a peer's connection.
    func times(of peer: PeerAddress?) -> ConnectionTimes { peer.map(isProxy) == true ? timesOfProxy : times }
}
