import Broker
import BrokerProviders
import BrokerRelay

/// The certificates that a configuration uses: those of its clients, by provider and client, and those of its upstreams.
struct ShownCertificates: Sendable {
    /// A client's certificate.
    struct OfClient: Sendable {
        let provider: ProviderName
        let client: ClientName
        let identity: ClientIdentity
        /// Whether the client's tokens are bound to the certificate.
        let binds: Bool
    }

    let clients: [OfClient]
    let upstreams: [(name: UpstreamName, identity: ClientIdentity)]
    private let byClient: [ProviderName: [ClientName: OfClient]]

    /// Finds the certificates of the running providers.
    ///
    /// A provider that a reload has kept unchanged still uses its own `ClientIdentity`, so ask the providers instead of the
    /// configuration.
    init(_ providers: ProviderDirectory, _ upstreams: [UpstreamSection]) {
        clients = providers.all.flatMap { provider in
            ((provider as? any ProviderInspection)?.identities ?? []).compactMap { name, identity in
                provider.profile.client(name).map {
                    OfClient(
                        provider: provider.profile.name, client: name, identity: identity,
                        binds: $0.senderConstraint == .mtls)
                }
            }
        }
        self.upstreams = upstreams.compactMap { upstream in
            guard let name = upstream.settings?.name else { return nil }
            return upstream.connection.identity.map { (name, $0) }
        }
        byClient = Dictionary(grouping: clients, by: \.provider).mapValues { clients in
            Dictionary(clients.map { ($0.client, $0) }, uniquingKeysWith: { first, _ in first })
        }
    }

    /// Returns the relay's source of certificates; nil if no client uses one.
    var relay: ClientCertificates? {
        guard !byClient.isEmpty else { return nil }
        return { [byClient] provider, client, isBound in
            guard let shown = byClient[provider]?[client], isBound || shown.binds else { return nil }
            return RelayCertificate(shown.identity.current)
        }
    }
}
