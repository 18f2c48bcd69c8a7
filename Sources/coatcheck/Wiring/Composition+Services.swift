import Broker
import BrokerHTTP
import BrokerRelay
import BrokerStore
import BrokerVault
import BrokerWire
import ServiceLifecycle

extension Composition {
    /// A listener of this process, by its name and the port it got.
    typealias Listening = @Sendable (_ listener: String, _ port: Int) -> Void

    /// Returns the services in the order of their start.
    ///
    /// They stop in the opposite order: readiness turns red, the listeners for apps and backends drain, the background
    /// work ends, what was spawned finishes, and the management listener goes last.
    func services(listening: @escaping Listening) -> [any Service] {
        let cap = ConnectionCap(maximum: DescriptorLimit.connections(of: descriptors))
        var services: [any Service] = [
            managementListener(listening),
            detached,
            ReloadOnHangup { [keyWatch] in keyWatch.look(isAsked: true) },
            keyWatch.service(context.clock),
            ringWatch.service(context.clock),
            ResealWork.service(resealing, context),
            Maintenance.sweeper(context, owner: Self.owner(vault)),
            Maintenance.revocations(context),
            Maintenance.trimming(context),
            sealUse.service(context),
            StoreGauges(store, configuration.store, metrics, now: context.clock.now).service(context.clock),
            readiness.end,
        ]
        if let address = configuration.server.backendListen {
            services.append(backendListener(address, cap, listening))
        }
        services += [publicListener(cap, listening), readiness]
        return services
    }

    private func publicListener(_ cap: ConnectionCap, _ listening: @escaping Listening) -> some Service {
        let requests = RequestMetrics(
            log: log, metrics: metrics, listener: "public", writesLines: configuration.log.requests)
        let responder = BrokerRouter.responder(
            useCases: useCases, relay: relay, configuration: http, clock: context.clock,
            digest: { vault.digest($0) }, load: load, log: requests.requestLog)
        requests.begin(responder.routes)
        return Listener(
            service: responder, configuration: listener(configuration.server.listen, PeerLedger(http), cap),
            listening: { listening("public", $0) })
    }

    private func backendListener(
        _ address: ListenAddress, _ cap: ConnectionCap, _ listening: @escaping Listening
    ) -> some Service {
        let requests = RequestMetrics(
            log: log, metrics: metrics, listener: "backend", writesLines: configuration.log.requests)
        let responder = BackendRouter.responder(
            useCases: useCases, configuration: http, clock: context.clock, digest: { vault.digest($0) }, load: load,
            log: requests.requestLog)
        requests.begin(responder.routes)
        return Listener(
            service: responder, configuration: listener(address, PeerLedger(http), cap),
            listening: { listening("backend", $0) })
    }

    private func managementListener(_ listening: @escaping Listening) -> some Service {
        let requests = RequestMetrics(
            log: log, metrics: metrics, listener: "management", writesLines: configuration.log.requests
        ).requestLog
        let health = ManagementHealth(
            ping: { [store] () async throws(StoreFailure) in try await store.ping() },
            keysFit: { [ringWatch] in ringWatch.isGood },
            isShuttingDown: { [readiness] in readiness.isDraining },
            metrics: { [self] in await measured() },
            providers: { [context] in ProviderHealth.all(context.providers) })
        let responder = ManagementRouter.responder(
            health: health, sessions: useCases.adminSessions, store: managementStore, configuration: http,
            clock: context.clock, digest: { vault.digest($0) }, log: requests)
        // Outside the cap: health answers when everybody is there.
        return Listener(
            service: responder, configuration: listener(configuration.management.listen, PeerLedger(http), nil),
            listening: { listening("management", $0) })
    }

    /// Reads what is measured only when asked, and returns everything as text.
    private func measured() async -> String {
        ProviderHealth.measure(context.providers, metrics)
        ProcessMetrics.measure(metrics)
        metrics.gauge("process_max_fds").set(Int64(descriptors))
        if let sqlite = store as? SQLiteStore {
            let written = sqlite.writeStatistics
            metrics.counter("coatcheck_store_transactions_total").advance(to: Int64(written.transactions))
            metrics.counter("coatcheck_store_writes_total").advance(to: Int64(written.writes))
            metrics.gauge("coatcheck_store_pending_endings").set(Int64(sqlite.pendingEndings))
            metrics.gauge("coatcheck_store_reserve_missing").set(sqlite.hasReserve ? 0.0 : 1.0)
        }
        if let postgresql = store as? PostgreSQLStore {
            let connections = postgresql.connections
            metrics.gauge("coatcheck_store_connections").set(Int64(connections.standing))
            metrics.counter("coatcheck_store_connections_lost_total").advance(to: Int64(connections.lost))
            metrics.gauge("coatcheck_store_waiting").set(Int64(postgresql.waiting))
        }
        // What cannot be read now keeps its last value; that the store fails is counted elsewhere.
        if let pending = try? await context.store.outboxCount() {
            metrics.gauge("coatcheck_revocations_pending").set(Int64(pending))
        }
        metrics.gauge("coatcheck_keys_fit").set(ringWatch.isGood ? 1.0 : 0.0)
        let now = context.clock.now()
        metrics.setGauges(
            "coatcheck_key_age_seconds",
            keyWatch.ring.list(at: now).map { key in
                let use = key.seals ? "seals" : key.waitsUntil == nil ? "opens" : "waits"
                return ([("key", key.id), ("use", use)], Double(now.seconds - key.created.seconds))
            })
        metrics.gauge("coatcheck_key_rotation_advised").set(vault.rotationAdvised ? 1.0 : 0.0)
        for upstream in configuration.upstreams.compactMap(\.settings) {
            metrics.gauge("coatcheck_relay_calls_under_way", [("upstream", upstream.name.text)])
                .set(Int64(relay.underWay(upstream.name)))
        }
        return metrics.text()
    }

    private func listener(
        _ address: ListenAddress, _ ledger: PeerLedger, _ cap: ConnectionCap?
    ) -> HTTPServer.Configuration {
        var settings = HTTPServer.Configuration(host: address.host, port: address.port)
        settings.limits = http.limits.connection
        settings.ledger = ledger
        settings.cap = cap
        return settings
    }

    static func owner(_ vault: OpenSSLVault) -> String {
        (try? vault.randomToken(bytes: 12).reveal()) ?? "process"
    }
}
