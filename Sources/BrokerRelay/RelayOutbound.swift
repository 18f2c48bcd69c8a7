package import BrokerWire
package import NIOCore
package import NIOSSL

/// The settings of the relay's outgoing connections: trust roots, proxy and event loops.
package struct RelayOutbound: Sendable {
    /// Trust roots and other TLS settings; nil means the system's.
    package var tls: TLSConfiguration?
    /// A proxy that makes the connections, and that must refuse private addresses itself.
    package var proxy: UpstreamTarget.Proxy?
    /// The event loops of the connections; nil means the process's own group.
    package var eventLoopGroup: (any EventLoopGroup)?
    /// The longest silence within a response body.
    package var readTimeout: Duration
    /// The longest time to connect, including TLS.
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

    /// Creates the context for TLS connections.
    ///
    /// Upstreams share one context, because each further context loads many trust roots again. A context with a certificate or
    /// further `roots` is made only for the connections that need it.
    func context(
        trusting roots: [NIOSSLCertificate] = [], showing certificate: RelayCertificate? = nil
    ) -> Result<NIOSSLContext, any Error> {
        var configuration = tls ?? .makeClientConfiguration()
        if tls == nil { configuration.minimumTLSVersion = .tlsv12 }
        configuration.applicationProtocols = ["http/1.1"]
        if !roots.isEmpty { configuration.additionalTrustRoots.append(.certificates(roots)) }
        if let certificate {
            configuration.certificateChain = certificate.chain.map { .certificate($0) }
            configuration.privateKey = .privateKey(certificate.key)
        }
        return Result { try NIOSSLContext(configuration: configuration) }
    }
}
