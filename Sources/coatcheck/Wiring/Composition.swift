import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay
import BrokerStore
import BrokerVault
import BrokerWire

/// The whole broker, wired and not yet listening: what `serve` runs, and what tests can build for themselves.
struct Composition: Sendable {
    let parts: ProcessParts
    /// The configuration at work.
    let running: ConfigurationOwner

    /// Wires everything; throws a sentence for the operator when a part cannot be made.
    static func make(
        _ configuration: Configuration, log: ProcessLog, store: any AdministeredStore,
        clock system: BrokerClock = SystemClock.clock
    ) throws(StartFailure) -> Composition {
        let shared = store as? any SharedStore
        let watch = shared == nil ? ClockWatch() : ClockWatch(correcting: system)
        let clock = shared == nil ? system : watch.corrected(system)
        let metrics = MetricsRegistry()
        let disk = DiskState(log: log)
        let timed = TimedStore(base: store, metrics: metrics, monotonic: clock.monotonic, disk: disk)
        let keyText = try KeyRingFile.bytes(configuration.keys)
        let ring = try KeyRingFile.ring(keyText, of: configuration.keys.place)
        let vault = try makeVault(ring, clock.now())
        let detached = DetachedWork(metrics: metrics)
        let events = EventLog(log: log, metrics: metrics)
        let context = BrokerContext(
            clock: clock, spawner: detached.spawner, events: events.sink, vault: vault, store: timed,
            providers: ProviderDirectory([]), cache: SessionCache(lifetime: configuration.session.cache),
            notices: SessionNotices(), settings: configuration.broker, watch: watch, shared: shared)
        if let shared { ReplicaNotices(context).listen(to: shared) }
        let load = ServerLoad()
        let readiness = Readiness(
            delay: configuration.server.drainDelay, timeout: configuration.server.shutdownTimeout, load: load, log: log,
            clock: clock)
        let charges = configuration.limits.http.charges
        let keyWatch = KeyWatch(configuration.keys, keyText, ring, vault, now: clock.now, log: log)
        let descriptors = DescriptorLimit.raise()
        let connectionMetrics = ConnectionMetrics(log: log, metrics: metrics, monotonic: clock.monotonic)
        let parts = ProcessParts(
            log: log, metrics: metrics,
            tracing: ProcessTracing(configuration.tracing, metrics: metrics, log: log, clock: clock), disk: disk,
            load: load, readiness: readiness, detached: detached, vault: vault,
            sealUse: SealUse(vault, timed),
            keyWatch: keyWatch,
            ringWatch: RingWatch(vault, keyWatch, store, now: clock.now, log: log),
            clockCheck: shared.map { ClockCheck(context, $0, log: log) },
            resealing: Resealing(context, store, owner: owner(vault)), store: store, shared: shared, context: context,
            revocations: Revocations(context), charges: ChargeLedger(charges, monotonic: clock.monotonic),
            backendCharges: ChargeLedger(charges, monotonic: clock.monotonic),
            wrongTokens: TokenBuckets(perMinute: charges.wrongTokensPerMinute, monotonic: clock.monotonic),
            descriptors: descriptors,
            connections: ConnectionCap(
                maximum: DescriptorLimit.connections(of: descriptors), isFull: connectionMetrics.isFull),
            connectionMetrics: connectionMetrics)
        return Composition(
            parts: parts, running: ConfigurationOwner(try RunningConfiguration(configuration, parts)))
    }

    static func owner(_ vault: OpenSSLVault) -> String {
        (try? vault.randomToken(bytes: 12).reveal()) ?? "process"
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

    /// Ends what holds connections and files; everything that uses them has ended before.
    func close() async {
        let last = running.current
        await last.relay.shutdown()
        await last.transport.shutdown()
        // What could not be told is not counted: an advice, not a limit.
        try? await parts.sealUse.tell()
        await parts.store.close()
    }
}
