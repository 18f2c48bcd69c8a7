package import Broker
import BrokerWire
import NIOCore
import NIOPosix
package import NIOSSL
import Synchronization

/// A certificate of ours that connections to an upstream show, with its key.
package struct RelayCertificate: Sendable {
    /// The name of the whole chain: connections of one are no other's.
    let id: Digest
    /// The thumbprint that tokens are bound to (`x5t#S256`, RFC 8705 section 3.1).
    let thumbprint: String
    let chain: [NIOSSLCertificate]
    let key: NIOSSLPrivateKey

    package init(id: Digest, thumbprint: String, chain: [NIOSSLCertificate], key: NIOSSLPrivateKey) {
        self.id = id
        self.thumbprint = thumbprint
        self.chain = chain
        self.key = key
    }
}

/// Returns the certificate that a client's tokens are used with, by whether the token in hand is bound to one; nil for none.
package typealias ClientCertificates =
    @Sendable (_ provider: ProviderName, _ client: ClientName, _ isBound: Bool) -> RelayCertificate?

/// Certificate and trust of an upstream's connections beside the relay's own (`upstreams.NAME.tls`).
package struct UpstreamTLS: Sendable {
    /// The certificate that is shown now, beside tokens that are bound to none.
    package var certificate: @Sendable () -> RelayCertificate?
    /// Further trust roots.
    package var roots: [NIOSSLCertificate]
    /// Their name; nil for none.
    package var rootsID: Digest?

    package init(
        certificate: @escaping @Sendable () -> RelayCertificate? = { nil }, roots: [NIOSSLCertificate] = [],
        rootsID: Digest? = nil
    ) {
        self.certificate = certificate
        self.roots = roots
        self.rootsID = rootsID
    }
}

/// The connections to one upstream: those that show nothing, and for each certificate its own, so that no call goes out on
/// one that another's certificate was shown on.
final class UpstreamPools: Sendable {
    private struct State {
        /// The certificate of each client's last call; nil is the upstream's own.
        var shown: [ClientName?: Digest] = [:]
        var clients: [Digest: UpstreamClient] = [:]
    }

    let base: UpstreamBase
    let policy: AddressPolicy
    let rootsID: Digest?
    /// Connections that show nothing.
    let plain: UpstreamClient
    private let outbound: RelayOutbound
    private let roots: [NIOSSLCertificate]
    /// Guards the others: a certificate that was exchanged takes its connections with it, when their last call is done.
    private let state = Mutex(State())

    init(
        _ base: UpstreamBase, _ policy: AddressPolicy, _ outbound: RelayOutbound, _ tls: UpstreamTLS,
        shared: Result<NIOSSLContext, any Error>?
    ) {
        self.base = base
        self.policy = policy
        self.outbound = outbound
        roots = tls.roots
        rootsID = tls.rootsID
        let own = tls.roots.isEmpty || !base.isSecure ? shared : outbound.context(trusting: tls.roots)
        plain = UpstreamClient(base, policy, outbound, tls: own)
    }

    /// Returns the connections that show a certificate, for a client's call or, where that is nil, for anybody's.
    func client(showing certificate: RelayCertificate?, for name: ClientName?) -> UpstreamClient {
        guard let certificate, base.isSecure else { return plain }
        return state.withLock { state in
            state.shown[name] = certificate.id
            if let client = state.clients[certificate.id] { return client }
            let made = UpstreamClient(
                base, policy, outbound, tls: outbound.context(trusting: roots, showing: certificate))
            let current = Set(state.shown.values)
            state.clients = state.clients.filter { current.contains($0.key) }
            state.clients[certificate.id] = made
            return made
        }
    }

    /// Closes every connection, for good.
    func shutDown() async {
        await plain.shutDown()
        for client in state.withLock({ Array($0.clients.values) }) { await client.shutDown() }
    }
}
