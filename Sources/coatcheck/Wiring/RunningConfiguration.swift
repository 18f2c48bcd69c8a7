import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay
import BrokerVault
import BrokerWire

/// A running configuration: everything that was made from one file, complete and immutable.
///
/// A request keeps the configuration that was current at its beginning. A new configuration shares the unchanged parts of the
/// previous configuration. The replaced parts end with the last request that uses them.
final class RunningConfiguration: Sendable {
    let configuration: Configuration
    let http: HTTPConfiguration
    let context: BrokerContext
    let useCases: BrokerUseCases
    let revocations: Revocations
    let transport: ProviderHTTP
    let relay: Relay
    /// The certificates in use.
    let certificates: ShownCertificates
    /// The number of providers that were kept from the previous configuration.
    let kept: Int
    let publicResponder: BrokerResponder
    let backendResponder: BrokerResponder
    let managementResponder: BrokerResponder
    let terms: ConnectionTerms
    /// The terms of the management listener's connections.
    let plainTerms: ConnectionTerms
    let peers: @Sendable (PeerAddress) -> [PeerPolicy]
    private let measuring: Measuring

    /// Makes all parts that depend on a configuration; throws a sentence for the operator if one cannot be made.
    init(
        _ configuration: Configuration, _ parts: ProcessParts, after before: RunningConfiguration? = nil
    ) throws(StartFailure) {
        self.configuration = configuration
        let clock = parts.context.clock
        let unchanged = Unchanged(configuration, since: before?.configuration)
        let outbound = configuration.outbound
        let transport =
            (unchanged.outbound ? before?.transport : nil)
            ?? ProviderHTTP(settings: outbound, traces: parts.tracing?.starter)
        self.transport = transport
        let providers: [any ProviderClient]
        do {
            providers = try ProviderCatalogue.make(
                settings: configuration.providers.map(\.settings), http: transport, clock: clock,
                random: { [vault = parts.vault] in try vault.random($0) }, nonces: parts.proofNonces,
                certificateRefused: { [refusals = parts.certificateRefusals] in refusals.note($0, $1, $2) },
                endpointUnusable: { [log = parts.log] provider, detail in
                    log.write(
                        .warning, "provider endpoint unusable", [("provider", provider.text), ("detail", detail)])
                },
                breakerTurned: { [outages = parts.outages] in outages.note($0) },
                keeping: { unchanged.has($0) ? before?.context.providers[$0] : nil })
        } catch {
            throw StartFailure("\(error)")
        }
        kept = configuration.providers.count { unchanged.has($0.name) }
        let context = parts.context.with(ProviderDirectory(providers), configuration.broker)
        self.context = context
        revocations = parts.revocations.with(context)
        let useCases = BrokerUseCases(context, publicURL: configuration.server.publicURL.text)
        self.useCases = useCases
        let certificates = ShownCertificates(context.providers, configuration.upstreams)
        self.certificates = certificates
        let relay = Relay(
            upstreams: configuration.upstreams.compactMap { $0.relayed(configuration.providers) },
            outbound: RelayOutbound(outbound), maximumBody: configuration.limits.http.relayBody,
            ownNames: [configuration.server.publicURL.text] + configuration.server.hosts, after: before?.relay,
            keepsConnections: unchanged.outbound,
            proofs: RelayProofs(parts.vault, clock, parts.proofNonces), certificates: certificates.relay,
            observe: RelayMetrics(parts.metrics).observer)
        self.relay = relay
        let http = HTTPConfiguration(configuration, contract: Contract.served(at: configuration.server.publicURL.text))
        self.http = http
        terms = ConnectionTerms(
            http.limits.connection, tls: configuration.server.tls,
            isProxy: { [proxies = http.trustedProxies] peer in
                proxies.contains { $0.contains(IPAddress(high: peer.high, low: peer.low)) }
            })
        plainTerms = ConnectionTerms(http.limits.connection)
        peers = PeerPolicy.each(http, ofAll: parts.connections.maximum)
        func requests(_ listener: ListenerName) -> RequestMetrics {
            RequestMetrics(
                log: parts.log, metrics: parts.metrics, listener: listener.rawValue,
                writesLines: configuration.log.requests, monotonic: clock.monotonic)
        }
        StartingSeries.register(configuration, parts.metrics)
        let digest: @Sendable ([UInt8]) -> Digest = { [vault = parts.vault] in vault.digest($0) }
        let publicRequests = requests(.public)
        publicResponder = BrokerRouter.responder(
            useCases: useCases, relay: relay, configuration: http, clock: clock, digest: digest, load: parts.load,
            ledger: parts.charges, log: publicRequests.requestLog, traces: parts.tracing?.starter)
        publicRequests.begin(publicResponder.routes)
        let backendRequests = requests(.backend)
        backendResponder = BackendRouter.responder(
            useCases: useCases, configuration: http, clock: clock, digest: digest, load: parts.load,
            ledger: parts.backendCharges, log: backendRequests.requestLog, traces: parts.tracing?.starter)
        if configuration.server.backendListen != nil { backendRequests.begin(backendResponder.routes) }
        let values = configuration.values
        let measuring = Measuring(
            parts, context, relay, configuration.upstreams.compactMap(\.settings?.name), configuration.server.tls,
            certificates)
        self.measuring = measuring
        managementResponder = ManagementRouter.responder(
            health: ManagementHealth(
                ping: { [store = parts.store] () async throws(StoreFailure) in try await store.ping() },
                conditions: { parts.conditions },
                metrics: { await measuring.text() },
                providers: { ProviderHealth.all(context.providers) },
                certificates: {
                    certificates.clients.map {
                        ManagementHealth.Certificate(
                            provider: $0.provider, client: $0.client, notAfter: $0.identity.current.validUntil)
                    }
                }),
            sessions: useCases.adminSessions, store: parts.managementStore,
            comparison: ManagementComparison { salt, digests in
                FixedSettings.compare(values.digests(salt, digest), with: digests)
            },
            configuration: http, clock: clock, digest: digest, wrongTokens: parts.wrongTokens,
            log: requests(.management).requestLog)
    }

    /// Removes the gauges of providers and upstreams that the next configuration lacks.
    func forget(whatIsNotIn next: Configuration) { measuring.forget(whatIsNotIn: next) }

    /// The parts that are the same in the previous and the new configuration.
    private struct Unchanged {
        private let changes: [String]?
        /// The providers whose clients request tokens for different APIs under the new configuration.
        private let retargeted: Set<ProviderName>
        /// Whether the settings of outgoing calls are unchanged.
        let outbound: Bool

        init(_ configuration: Configuration, since before: Configuration?) {
            let changes = before.map { configuration.values.changes(since: $0.values) }
            self.changes = changes
            retargeted = Set(
                configuration.providers.filter { provider in
                    let old = before?.providers.first { $0.name == provider.name }
                    return old?.settings.clients.map(\.targets) != provider.settings.clients.map(\.targets)
                }.map(\.name))
            outbound = changes.map { !$0.contains { ConfigValues.lies($0, under: "outbound") } } ?? false
        }

        /// Returns whether a provider is unchanged, including the settings that it inherits.
        func has(_ provider: ProviderName) -> Bool {
            guard let changes, outbound, !retargeted.contains(provider) else { return false }
            let paths = ["providers.\(provider)", "session.idle", "session.absolute"]
            return !changes.contains { change in paths.contains { ConfigValues.lies(change, under: $0) } }
        }
    }
}
