package import Broker
import BrokerWire
import NIOCore
package import NIOSSL
import Synchronization

/// A certificate of the broker, with its key, for connections to an upstream.
package struct RelayCertificate: Sendable {
    /// The digest of the whole certificate chain, which identifies the chain.
    ///
    /// Each chain has connections of its own.
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

/// The connections to one upstream.
///
/// Each certificate has connections of its own, and calls without a certificate have theirs. A call is therefore never sent on
/// a connection that showed another certificate.
final class UpstreamPools: Sendable {
    private struct State {
        /// The certificate of each client's last call; the key nil is for the upstream's own certificate.
        var shown: [ClientName?: Digest] = [:]
        var clients: [Digest: UpstreamClient] = [:]
    }

    let base: UpstreamBase
    let policy: AddressPolicy
    let rootsID: Digest?
    /// The connections on which no certificate is shown.
    let plain: UpstreamClient
    private let outbound: RelayOutbound
    private let roots: [NIOSSLCertificate]
    /// Guards the connections on which a certificate is shown.
    ///
    /// If a certificate is replaced, the connections that showed it close after their last call.
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

    /// Returns the connections that show `certificate`, for calls of the client `name`; `name` is nil for the upstream's own
    /// certificate.
    ///
    /// If `certificate` is nil, or the upstream uses plain http, the connections show no certificate.
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

    /// Closes every connection permanently.
    func shutDown() async {
        await plain.shutDown()
        for client in state.withLock({ Array($0.clients.values) }) { await client.shutDown() }
    }
}
