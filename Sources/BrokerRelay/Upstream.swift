import Broker
package import BrokerWire
package import NIOCore
import NIOPosix
package import NIOSSL

/// An upstream with its settings and connections.
final class Upstream: Sendable {
    let settings: UpstreamSettings
    let pools: UpstreamPools
    let concurrency: UpstreamConcurrency

    /// Creates the upstream; the calls in progress of the `old` upstream still count if the limit is the same.
    ///
    /// With `keepsConnections`, the old connections are kept if base URL, address policy and trust roots are equal.
    init(
        _ settings: UpstreamSettings, outbound: RelayOutbound, tls: Result<NIOSSLContext, any Error>?,
        after old: Upstream? = nil, keepsConnections: Bool = false
    ) {
        self.settings = settings
        if let old, keepsConnections, old.settings.base == settings.base, old.settings.policy == settings.policy,
            old.settings.tls.rootsID == settings.tls.rootsID
        {
            pools = old.pools
        } else {
            pools = UpstreamPools(settings.base, settings.policy, outbound, settings.tls, shared: tls)
        }
        if let old, old.settings.maximumConcurrent == settings.maximumConcurrent {
            concurrency = old.concurrency
        } else {
            concurrency = UpstreamConcurrency(limit: settings.maximumConcurrent)
        }
    }

    /// Returns the connections for a call.
    ///
    /// The first choice is the client's certificate, if its tokens are bound to it. The second is the upstream's own
    /// certificate, and the third a connection that shows none. The result is nil if the token is bound to a certificate that
    /// the broker does not show now, because such a token must not use another connection.
    func client(
        for token: AccessToken, of session: LiveSession, _ certificates: ClientCertificates?
    ) -> UpstreamClient? {
        let (provider, client) = (session.facts.provider, session.facts.client)
        let certificate = certificates?(provider, client, token.certificate != nil)
        guard fits(token, certificate) else { return nil }
        if let certificate {
            return pools.client(showing: certificate, for: client)
        }
        return pools.client(showing: settings.tls.certificate(), for: nil)
    }

    /// Returns whether a token may be sent on a connection that is made now.
    func carries(_ token: AccessToken, of session: LiveSession, _ certificates: ClientCertificates?) -> Bool {
        token.certificate == nil || fits(token, certificates?(session.facts.provider, session.facts.client, true))
    }

    private func fits(_ token: AccessToken, _ certificate: RelayCertificate?) -> Bool {
        guard let bound = token.certificate else { return true }
        return settings.base.isSecure && certificate?.thumbprint == bound
    }

    /// Returns whether the upstream accepts tokens from the session's provider and client (SEC-72).
    func accepts(_ session: LiveSession) -> Bool {
        settings.provider == session.facts.provider && settings.clients?.contains(session.facts.client) ?? true
    }
}

extension UpstreamSettings {
    fileprivate var policy: AddressPolicy { isInternal ? .any : base.isLoopback ? .loopbackOnly : .publicOnly }
}

extension UpstreamClient {
    /// Creates the connections to an upstream.
    convenience init(
        _ base: UpstreamBase, _ policy: AddressPolicy, _ outbound: RelayOutbound, tls: Result<NIOSSLContext, any Error>?
    ) {
        var target = UpstreamTarget(host: base.host, port: base.port) { address in
            base.allows(address?.ipAddress.flatMap { IPAddress($0) }, policy)
        }
        target.tls = base.isSecure ? tls : nil
        // The proxy is used only for https upstreams outside this machine.
        target.proxy = base.isLoopback || !base.isSecure ? nil : outbound.proxy
        var limits = UpstreamLimits()
        limits.silence = TimeAmount(outbound.readTimeout)
        limits.connect = TimeAmount(outbound.connectTimeout)
        self.init(target, limits, on: outbound.eventLoopGroup ?? MultiThreadedEventLoopGroup.singleton)
    }
}

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

    /// Returns the context for TLS connections, made once for all upstreams because there are many trust roots.
    ///
    /// A context with a certificate or further `roots` is made only for the connections that need it.
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
