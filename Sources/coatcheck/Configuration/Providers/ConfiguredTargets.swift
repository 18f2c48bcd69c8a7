import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay

/// The targets of each client's sessions, from upstreams and backends together.
struct ConfiguredTargets {
    private let upstreams: [UpstreamSection]
    private let backends: [BackendSection]

    init(_ upstreams: [UpstreamSection], _ backends: [BackendSection]) {
        self.upstreams = upstreams
        self.backends = backends
    }

    /// Returns a client's targets without repetitions, in the file's order, upstreams first.
    func of(_ client: ClientName, at provider: ProviderName) -> [TokenTarget] {
        let own = upstreams.compactMap(\.settings).filter { upstream in
            upstream.provider == provider && upstream.clients?.contains(client) ?? true
        }
        let asked = backends.map(\.settings).filter { $0.mayAsk(about: provider, client) }
        var seen: Set<TokenTarget> = []
        return (own.compactMap(\.token) + asked.flatMap(\.tokens)).filter { seen.insert($0).inserted }
    }

    /// Returns a provider with its clients' targets, and with the targets' scopes added to the clients' own.
    func joined(to provider: ProviderSection) -> ProviderSection {
        guard provider.kind.takesTargets else { return provider }
        var joined = provider
        for index in joined.settings.clients.indices {
            joined.settings.clients[index].targets = of(
                joined.settings.clients[index].profile.name, at: provider.name)
            let client = joined.settings.clients[index]
            joined.settings.clients[index].profile.scope += client.targetScope.filter {
                !client.profile.scope.contains($0)
            }
        }
        return joined
    }
}
