import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay
import BrokerStore
import BrokerVault
import BrokerWire
import Foundation
import NIOSSL
import ServiceLifecycle
import UnixSignals

/// All parts of the broker, connected but not yet listening, for `serve` and for tests.
struct Composition: Sendable {
    let parts: ProcessParts
    /// The owner of the configuration that is in use.
    let running: ConfigurationOwner

    /// Makes and connects all parts; throws a sentence for the operator if one cannot be made.
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
        let load = ServerLoad()
        let outages = Outages(log: log, monotonic: clock.monotonic) { load.isDraining }
        if let shared { ReplicaNotices(context).listen(to: shared) { outages.note($0) } }
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
            rightsWatch: (store as? PostgreSQLStore).map { postgresql in
                RightsWatch({ () async throws(StoreFailure) in try await postgresql.lackingRights() }, log: log)
            },
            clockCheck: ClockCheck(context, shared, log: log),
            resealing: Resealing(context, store, owner: owner(vault)), store: store, shared: shared, context: context,
            revocations: Revocations(context), charges: ChargeLedger(charges, monotonic: clock.monotonic),
            backendCharges: ChargeLedger(charges, monotonic: clock.monotonic),
            wrongTokens: TokenBuckets(perMinute: charges.wrongTokensPerMinute, monotonic: clock.monotonic),
            certificateRefusals: CertificateRefusals(log: log, monotonic: clock.monotonic), outages: outages,
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

    /// Makes the vault of a configuration for a command.
    static func makeVault(_ settings: KeySettings) throws(StartFailure) -> OpenSSLVault {
        try makeVault(KeyRingFile.load(settings), SystemClock.wallTime())
    }

    private static func makeVault(_ ring: KeyRing, _ now: WallTime) throws(StartFailure) -> OpenSSLVault {
        do throws(VaultFailure) {
            return try OpenSSLVault(ring: ring, at: now)
        } catch {
            throw StartFailure("the system's OpenSSL lacks AES-256-GCM, HMAC or HKDF with SHA-256")
        }
    }

    /// Closes connections and files, after everything that uses them has ended.
    func close() async {
        let last = running.current
        await last.relay.shutdown()
        await last.transport.shutdown()
        // A failure here is acceptable, because only the advice to rotate the keys depends on the counts of seals.
        try? await parts.sealUse.tell()
        await parts.store.close()
    }
}

extension Composition {
    /// Called when a listener starts accepting, with its name and port.
    typealias Listening = @Sendable (_ listener: ListenerName, _ port: Int) -> Void

    /// Returns the services in the order of their start.
    ///
    /// The services stop in the opposite order:
    /// - The broker reports unready.
    /// - The listeners for apps and backends drain.
    /// - The background work ends.
    /// - Spawned work finishes.
    /// - The management listener ends.
    ///
    /// The caller closes the sockets after the store. `load` reads the configuration file again.
    func services(
        on sockets: ListeningSockets, hangups: UnixSignalsSequence, listening: @escaping Listening,
        load: @escaping @Sendable () throws(ConfigurationFailure) -> Configuration
    ) -> [any Service] {
        let context = parts.context
        let first = running.current.configuration
        let handshakes = HandshakeRoom()
        let reload = ConfigurationReload(parts, running, load: load)
        let certificates = CertificateRereading(
            CertificateWatch(
                current: { [running] in running.current.certificates },
                digest: { [vault = parts.vault] in vault.digest($0) }, now: context.clock.now, log: parts.log,
                metrics: parts.metrics),
            context.clock, log: parts.log)
        let keys = KeyRereading(parts.keyWatch, context.clock, log: parts.log)
        func listener(_ name: ListenerName) -> Listener {
            var settings = HTTPServer.Configuration()
            // The management listener has no TLS, because operators connect through loopback.
            let isPlain = name == .management
            settings.terms = { [running] in isPlain ? running.current.plainTerms : running.current.terms }
            settings.handshakes = handshakes
            settings.ledger = PeerLedger(refused: parts.connectionMetrics.refused) { [running] in
                running.current.peers($0)
            }
            // The cap leaves out the management listener, so that health checks are answered at full load.
            settings.cap = name == .management ? nil : parts.connections
            let service = CurrentService(running: running) { current in
                switch name {
                case .public: current.publicResponder
                case .backend: current.backendResponder
                case .management: current.managementResponder
                }
            }
            return Listener(
                name: name, service: service, configuration: settings, sockets: sockets,
                listening: { listening(name, $0) })
        }
        var services: [any Service] = [
            listener(.management),
            parts.detached,
            ReloadOnHangup(
                signals: hangups,
                action: { [ringWatch = parts.ringWatch] in
                    // Read the keys concurrently with the configuration, because the files of one of them may hang.
                    async let keysAreRead: Void = keys.look(isAsked: true)
                    await reload.run()
                    await certificates.look(isAsked: true)
                    await keysAreRead
                    if !ringWatch.isGood { await ringWatch.look() }
                }, end: reload.stop),
            keys.service,
            certificates.service,
            parts.ringWatch.service(context.clock),
            ResealWork.service(parts.resealing, context),
            Maintenance.sweeper(context, owner: Self.owner(parts.vault)),
            Maintenance.revocations(context) { [running] in running.current.revocations },
            Maintenance.trimming(context),
            Maintenance.endings(context),
            parts.sealUse.service(context),
            StoreGauges(parts.store, first.store, parts.metrics, now: context.clock.now).service(context.clock),
            parts.readiness.end,
        ]
        // Services stop in the opposite order. At index 1, the exporter stops after all services that make spans.
        if let tracing = parts.tracing { services.insert(tracing.exporter, at: 1) }
        if let rightsWatch = parts.rightsWatch { services.append(rightsWatch.service(context.clock)) }
        services.append(parts.clockCheck.inquiring { [running] in running.current.context.providers })
        if parts.shared != nil { services.append(parts.clockCheck.comparing) }
        if let shared = parts.shared { services.append(Maintenance.refreshes(context, shared)) }
        if first.server.backendListen != nil { services.append(listener(.backend)) }
        services += [listener(.public), parts.readiness]
        return services
    }
}

extension RelayOutbound {
    /// Makes the relay's outbound settings from the configuration file.
    init(_ settings: TransportSettings) {
        self.init(connectTimeout: settings.connectTimeout)
        if let file = settings.caFile {
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.minimumTLSVersion = .tlsv12
            configuration.additionalTrustRoots = [.file(file)]
            tls = configuration
        }
        if let own = settings.proxy {
            let credentials = own.credentials.map { "Basic " + Data($0.bytes()).base64EncodedString() }
            proxy = UpstreamTarget.Proxy(host: own.host, port: own.port, credentials: credentials)
        }
    }
}
