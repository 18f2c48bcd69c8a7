import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay
import BrokerStore
import BrokerVault

/// The whole broker, wired and not yet listening: what `serve` runs, and what tests can build for themselves.
struct Composition: Sendable {
    let configuration: Configuration
    let log: ProcessLog
    let metrics: MetricsRegistry
    let load: ServerLoad
    let readiness: Readiness
    let detached: DetachedWork
    let vault: OpenSSLVault
    let sealUse: SealUse
    let keyWatch: KeyWatch
    let ringWatch: RingWatch
    /// Nil where the store has no clock of its own.
    let clockCheck: ClockCheck?
    let resealing: Resealing
    let store: any AdministeredStore
    let transport: ProviderHTTP
    let context: BrokerContext
    let useCases: BrokerUseCases
    let http: HTTPConfiguration
    let relay: Relay
    /// How many descriptors the process may have.
    let descriptors: Int

    /// Wires everything; throws a sentence for the operator when a part cannot be made.
    static func make(
        _ configuration: Configuration, log: ProcessLog, store: any AdministeredStore,
        clock system: BrokerClock = SystemClock.clock
    ) throws(StartFailure) -> Composition {
        let isShared = store is any StoreClock
        let watch = isShared ? ClockWatch(correcting: system) : ClockWatch()
        let clock = isShared ? watch.corrected(system) : system
        let metrics = MetricsRegistry()
        StartingSeries.register(configuration, metrics)
        let timed = TimedStore(base: store, metrics: metrics, monotonic: clock.monotonic)
        let keyText = try KeyRingFile.bytes(configuration.keys)
        let ring = try KeyRingFile.ring(keyText, of: configuration.keys.place)
        let vault = try makeVault(ring, clock.now())
        let detached = DetachedWork(metrics: metrics)
        let events = EventLog(log: log, metrics: metrics) { handle in
            String(Base64URL.encode(vault.index(.logTag, [handle.text]).bytes).prefix(16))
        }
        let outbound = configuration.outbound
        let transport = ProviderHTTP(
            settings: TransportSettings(
                caFile: outbound.caFile, proxy: outbound.proxy, allowPrivate: outbound.allowPrivate,
                connectTimeout: outbound.connectTimeout))
        let context = BrokerContext(
            clock: clock, spawner: detached.spawner, events: events.sink, vault: vault, store: timed,
            providers: ProviderDirectory(try makeProviders(configuration, transport, clock, vault)),
            cache: SessionCache(lifetime: configuration.session.cache), notices: SessionNotices(),
            settings: BrokerSettings(configuration.limits), watch: watch)
        if let replicas = store as? any EndingNotices { ReplicaNotices(context).listen(to: replicas) }
        let load = ServerLoad()
        let readiness = Readiness(
            delay: configuration.server.drainDelay, timeout: configuration.server.shutdownTimeout, load: load, log: log,
            clock: clock)
        return Composition(
            configuration: configuration, log: log, metrics: metrics, load: load, readiness: readiness,
            detached: detached, vault: vault, sealUse: SealUse(vault, timed),
            keyWatch: KeyWatch(configuration.keys, keyText, ring, vault, now: clock.now, log: log),
            ringWatch: RingWatch(vault, store, log: log), clockCheck: ClockCheck(context, store, log: log),
            resealing: Resealing(context, store, owner: owner(vault)), store: store, transport: transport,
            context: context,
            useCases: BrokerUseCases(context, publicURL: configuration.server.publicURL.text),
            http: HTTPConfiguration(configuration, contract: Contract.served(at: configuration.server.publicURL.text)),
            relay: Relay(
                upstreams: configuration.upstreams.compactMap { $0.relayed(configuration.providers) },
                outbound: RelayOutbound(outbound), maximumBody: configuration.limits.relayBody,
                observe: RelayMetrics(metrics).observer),
            descriptors: DescriptorLimit.raise())
    }

    /// Makes the vault of a configuration, for a command.
    static func makeVault(_ settings: KeySettings) throws(StartFailure) -> OpenSSLVault {
        try makeVault(KeyRingFile.load(settings), SystemClock.wallTime())
    }

    private static func makeVault(_ ring: KeyRing, _ now: WallTime) throws(StartFailure) -> OpenSSLVault {
        do throws(VaultFailure) {
            return try OpenSSLVault(ring: ring, at: now)
        } catch {
            throw StartFailure("the system's OpenSSL does not offer AES-256-GCM, HMAC and HKDF with SHA-256")
        }
    }

    private static func makeProviders(
        _ configuration: Configuration, _ transport: ProviderHTTP, _ clock: BrokerClock, _ vault: OpenSSLVault
    ) throws(StartFailure) -> [any ProviderClient] {
        do {
            return try ProviderCatalogue.make(
                settings: configuration.providers.map(\.settings), http: transport, clock: clock,
                random: { try vault.random($0) })
        } catch {
            throw StartFailure("\(error)")
        }
    }

    /// Ends what holds connections and files; everything that uses them has ended before.
    func close() async {
        await relay.shutdown()
        await transport.shutdown()
        // What could not be told is not counted: an advice, not a limit.
        try? await sealUse.tell()
        await store.close()
    }
}
