import Broker
import BrokerWire
import NIOCore
import NIOPosix
import NIOSSL

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

    /// Returns whether a token may be sent on a new connection, which shows the client's present certificate.
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
