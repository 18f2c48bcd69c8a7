import Broker
import BrokerHTTP
import BrokerRelay
import BrokerStore
import BrokerVault
import BrokerWire
import ServiceLifecycle

extension Composition {
    /// Is told of a listener that accepts, by its name and port.
    typealias Listening = @Sendable (_ listener: ListenerName, _ port: Int) -> Void

    /// Returns the services in the order of their start.
    ///
    /// They stop in the opposite order: readiness turns red, the listeners for apps and backends drain, the background
    /// work ends, what was spawned finishes, and the management listener goes last. The sockets are closed behind the
    /// store, by whoever opened them.
    func services(on sockets: ListeningSockets, listening: @escaping Listening) -> [any Service] {
        let cap = ConnectionCap(maximum: DescriptorLimit.connections(of: descriptors))
        var services: [any Service] = [
            managementListener(sockets, listening),
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
        if let clockCheck { services.append(clockCheck.service(context.clock)) }
        if let versions = store as? any TokenVersions { services.append(Maintenance.refreshes(context, versions)) }
        if configuration.server.backendListen != nil { services.append(backendListener(sockets, cap, listening)) }
        services += [publicListener(sockets, cap, listening), readiness]
        return services
    }

    private func publicListener(
        _ sockets: ListeningSockets, _ cap: ConnectionCap, _ listening: @escaping Listening
    ) -> some Service {
        let requests = RequestMetrics(
            log: log, metrics: metrics, listener: "public", writesLines: configuration.log.requests)
        let responder = BrokerRouter.responder(
            useCases: useCases, relay: relay, configuration: http, clock: context.clock,
            digest: { vault.digest($0) }, load: load, log: requests.requestLog)
        requests.begin(responder.routes)
        return listener(.public, responder, sockets, cap, listening)
    }

    private func backendListener(
        _ sockets: ListeningSockets, _ cap: ConnectionCap, _ listening: @escaping Listening
    ) -> some Service {
        let requests = RequestMetrics(
            log: log, metrics: metrics, listener: "backend", writesLines: configuration.log.requests)
        let responder = BackendRouter.responder(
            useCases: useCases, configuration: http, clock: context.clock, digest: { vault.digest($0) }, load: load,
            log: requests.requestLog)
        requests.begin(responder.routes)
        return listener(.backend, responder, sockets, cap, listening)
    }

    private func managementListener(
        _ sockets: ListeningSockets, _ listening: @escaping Listening
    ) -> some Service {
        let requests = RequestMetrics(
            log: log, metrics: metrics, listener: "management", writesLines: configuration.log.requests
        ).requestLog
        let health = ManagementHealth(
            ping: { [store] () async throws(StoreFailure) in try await store.ping() },
            keysFit: { [ringWatch] in ringWatch.isGood },
            clockAhead: { [context] in context.watch.ahead },
            isShuttingDown: { [readiness] in readiness.isDraining },
            metrics: { [self] in await measured() },
            providers: { [context] in ProviderHealth.all(context.providers) })
        let responder = ManagementRouter.responder(
            health: health, sessions: useCases.adminSessions, store: managementStore, configuration: http,
            clock: context.clock, digest: { vault.digest($0) }, log: requests)
        // Outside the cap: health answers when everybody is there.
        return listener(.management, responder, sockets, nil, listening)
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
        if let ahead = context.watch.ahead {
            metrics.gauge("coatcheck_clock_ahead_seconds").set(Double(ahead.wholeMilliseconds) / 1000)
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
        _ name: ListenerName, _ responder: BrokerResponder, _ sockets: ListeningSockets, _ cap: ConnectionCap?,
        _ listening: @escaping Listening
    ) -> Listener {
        var settings = HTTPServer.Configuration()
        settings.limits = http.limits.connection
        settings.ledger = PeerLedger(http)
        settings.cap = cap
        return Listener(
            name: name, responder: responder, configuration: settings, sockets: sockets,
            listening: { listening(name, $0) })
    }

    static func owner(_ vault: OpenSSLVault) -> String {
        (try? vault.randomToken(bytes: 12).reveal()) ?? "process"
    }
}
