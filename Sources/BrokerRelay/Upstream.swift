import Broker
package import BrokerWire
package import NIOCore
import NIOPosix
package import NIOSSL

/// An upstream ready to be called.
final class Upstream: Sendable {
    let settings: UpstreamSettings
    let pools: UpstreamPools
    let concurrency: UpstreamConcurrency

    /// Creates it, with the connections (where `keepsConnections`) and the places of the one before, if they serve it,
    /// too.
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

    /// Returns the connections for a call: those of the client's certificate where its tokens are bound to that, else of the
    /// upstream's own, else those that show nothing.
    ///
    /// Nil for a token that is bound to a certificate which no connection of ours shows now: it goes out on no other.
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

    /// Whether a token may go out on a connection of now.
    func carries(_ token: AccessToken, of session: LiveSession, _ certificates: ClientCertificates?) -> Bool {
        token.certificate == nil || fits(token, certificates?(session.facts.provider, session.facts.client, true))
    }

    private func fits(_ token: AccessToken, _ certificate: RelayCertificate?) -> Bool {
        guard let bound = token.certificate else { return true }
        return settings.base.isSecure && certificate?.thumbprint == bound
    }

    /// Says whether the session's token is meant for this upstream (SEC-72).
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
        // A proxy is for what lies outside.
        target.proxy = base.isLoopback || !base.isSecure ? nil : outbound.proxy
        var limits = UpstreamLimits()
        limits.silence = TimeAmount(outbound.readTimeout)
        limits.connect = TimeAmount(outbound.connectTimeout)
        self.init(target, limits, on: outbound.eventLoopGroup ?? MultiThreadedEventLoopGroup.singleton)
    }
}

/// The relay's way to the outside: trust, proxy, event loops.
package struct RelayOutbound: Sendable {
    /// Trust roots and the like; nil is the system's.
    package var tls: TLSConfiguration?
    /// A proxy that connects for us; it must refuse private addresses itself.
    package var proxy: UpstreamTarget.Proxy?
    /// The event loops of the connections; nil is the process's own group.
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
    ///
    /// One that trusts further `roots`, or shows a certificate, is made for those connections alone.
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
