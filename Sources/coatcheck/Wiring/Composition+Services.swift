import Broker
import BrokerHTTP
import BrokerWire
import ServiceLifecycle
import UnixSignals

extension Composition {
    /// Is told of a listener that accepts, by its name and port.
    typealias Listening = @Sendable (_ listener: ListenerName, _ port: Int) -> Void

    /// Returns the services in the order of their start.
    ///
    /// They stop in the opposite order: readiness turns red, the listeners for apps and backends drain, the background
    /// work ends, what was spawned finishes, and the management listener goes last. The sockets are closed behind the
    /// store, by whoever opened them. `load` reads the configuration file again.
    func services(
        on sockets: ListeningSockets, hangups: UnixSignalsSequence, listening: @escaping Listening,
        load: @escaping @Sendable () throws(ConfigurationFailure) -> Configuration
    ) -> [any Service] {
        let context = parts.context
        let first = running.current.configuration
        let handshakes = HandshakeRoom()
        let reload = ConfigurationReload(parts, running, load: load)
        let keys = KeyRereading(parts.keyWatch, context.clock, log: parts.log)
        func listener(_ name: ListenerName) -> Listener {
            var settings = HTTPServer.Configuration()
            // Operators come by loopback: no TLS there.
            let isPlain = name == .management
            settings.terms = { [running] in isPlain ? running.current.plainTerms : running.current.terms }
            settings.handshakes = handshakes
            settings.ledger = PeerLedger(refused: parts.connectionMetrics.refused) { [running] in
                running.current.peers($0)
            }
            // Management is outside the cap: health answers when everybody is there.
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
                    // Beside each other: the files of one may hang.
                    async let keysAreRead: Void = keys.look(isAsked: true)
                    await reload.run()
                    await keysAreRead
                    if !ringWatch.isGood { await ringWatch.look() }
                }, end: reload.stop),
            keys.service,
            parts.ringWatch.service(context.clock),
            ResealWork.service(parts.resealing, context),
            Maintenance.sweeper(context, owner: Self.owner(parts.vault)),
            Maintenance.revocations(context) { [running] in running.current.revocations },
            Maintenance.trimming(context),
            parts.sealUse.service(context),
            StoreGauges(parts.store, first.store, parts.metrics, now: context.clock.now).service(context.clock),
            parts.readiness.end,
        ]
        // It goes after everything that makes spans.
        if let tracing = parts.tracing { services.insert(tracing.exporter, at: 1) }
        if let clockCheck = parts.clockCheck { services.append(clockCheck.service(context.clock)) }
        if let shared = parts.shared { services.append(Maintenance.refreshes(context, shared)) }
        if first.server.backendListen != nil { services.append(listener(.backend)) }
        services += [listener(.public), parts.readiness]
        return services
    }
}
