package import BrokerWire
package import NIOCore
package import NIOSSL

/// How the relay reaches the outside: trust, proxy, event loops.
package struct RelayOutbound: Sendable {
    /// Trust roots and the like; nil is the system's.
    package var tls: TLSConfiguration?
    /// A proxy that connects for us; it must refuse private addresses itself.
    package var proxy: UpstreamTarget.Proxy?
    /// Where connections live; nil is the process's own group.
    package var eventLoopGroup: (any EventLoopGroup)?
    /// The longest silence within a response body.
    package var readTimeout: Duration
    /// The longest time to connect, TLS included.
    package var connectTimeout: Duration

    package init(
        tls: TLSConfiguration? = nil, proxy: UpstreamTarget.Proxy? = nil, eventLoopGroup: (any EventLoopGroup)? = nil,
        readTimeout: Duration = .seconds(60), connectTimeout: Duration = .seconds(5)
    ) {
        self.tls = tls
        self.proxy = proxy
        self.eventLoopGroup = eventLoopGroup
        self.readTimeout = readTimeout
        self.connectTimeout = connectTimeout
    }

    /// Returns what TLS connections are made with: made once for all upstreams, because trust roots are many.
    func context() -> Result<NIOSSLContext, any Error> {
        var configuration = tls ?? .makeClientConfiguration()
        if tls == nil { configuration.minimumTLSVersion = .tlsv12 }
        configuration.applicationProtocols = ["http/1.1"]
        return Result { try NIOSSLContext(configuration: configuration) }
    }
}
