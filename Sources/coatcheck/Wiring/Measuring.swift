import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay
import BrokerStore
import BrokerVault
import BrokerWire
import Foundation

/// Collects the measurements that are made when the metrics are read.
struct Measuring: Sendable {
    private let parts: ProcessParts
    private let context: BrokerContext
    private let relay: Relay
    private let upstreams: [UpstreamName]
    private let tls: ServerTLS?
    private let certificates: ShownCertificates

    init(
        _ parts: ProcessParts, _ context: BrokerContext, _ relay: Relay, _ upstreams: [UpstreamName], _ tls: ServerTLS?,
        _ certificates: ShownCertificates
    ) {
        self.certificates = certificates
        self.parts = parts
        self.context = context
        self.relay = relay
        self.upstreams = upstreams
        self.tls = tls
    }

    /// Returns all metrics as Prometheus text.
    func text() async -> String {
        let metrics = parts.metrics
        ProviderHealth.measure(context.providers, metrics)
        ProcessMetrics.measure(metrics)
        metrics.gauge("process_max_fds").set(Int64(parts.descriptors))
        metrics.gauge("coatcheck_connections").set(Int64(parts.connections.count))
        metrics.gauge("coatcheck_connections_max").set(Int64(parts.connections.maximum))
        if let sqlite = parts.store as? SQLiteStore {
            let written = sqlite.writeStatistics
            metrics.counter("coatcheck_store_transactions_total").advance(to: Int64(written.transactions))
            metrics.counter("coatcheck_store_writes_total").advance(to: Int64(written.writes))
            metrics.gauge("coatcheck_store_pending_endings").set(Int64(sqlite.pendingEndings))
            metrics.gauge("coatcheck_store_endings_unkept").set(Int64(sqlite.unkeptEndings.count))
            metrics.gauge("coatcheck_store_reserve_missing").set(sqlite.hasReserve ? 0.0 : 1.0)
        }
        if let postgresql = parts.store as? PostgreSQLStore {
            let connections = postgresql.connections
            metrics.gauge("coatcheck_store_connections").set(Int64(connections.standing))
            metrics.counter("coatcheck_store_connections_lost_total").advance(to: Int64(connections.lost))
            metrics.gauge("coatcheck_store_waiting").set(Int64(postgresql.waiting))
        }
        if let ahead = context.watch.ahead {
            metrics.gauge("coatcheck_clock_ahead_seconds").set(Double(ahead.wholeMilliseconds) / 1000)
        }
        let standing = context.watch.standing(context.clock)
        for doubt in ClockDoubt.allCases {
            metrics.gauge("coatcheck_clock_doubted", [("reason", doubt.rawValue)])
                .set(standing.doubt == doubt ? 1.0 : 0.0)
        }
        metrics.gauge("coatcheck_clock_witnesses").set(Int64(standing.witnesses.count))
        // If the value cannot be read now, its gauge keeps the last value. `TimedStore` counts the failure of the store.
        if let pending = try? await context.store.outboxCount() {
            metrics.gauge("coatcheck_revocations_pending").set(Int64(pending))
        }
        metrics.gauge("coatcheck_keys_fit").set(parts.ringWatch.isGood ? 1.0 : 0.0)
        let now = context.clock.now()
        metrics.setGauges(
            "coatcheck_key_age_seconds",
            parts.keyWatch.ring.list(at: now).map { key in
                let use = key.seals ? "seals" : key.waitsUntil == nil ? "opens" : "waits"
                return ([("key", key.id), ("use", use)], Double(now.seconds - key.created.seconds))
            })
        metrics.gauge("coatcheck_key_rotation_advised").set(parts.vault.rotationAdvised ? 1.0 : 0.0)
        if let tls { metrics.gauge("coatcheck_tls_certificate_expires_seconds").set(tls.expiresAt) }
        metrics.setGauges(
            "coatcheck_client_certificate_expiry_seconds",
            certificates.clients.map { shown in
                (
                    [("provider", shown.provider.text), ("client", shown.client.text)],
                    Double(shown.identity.current.validUntil.seconds)
                )
            })
        for upstream in upstreams {
            metrics.gauge("coatcheck_relay_calls_under_way", [("upstream", upstream.text)])
                .set(Int64(relay.underWay(upstream)))
        }
        return metrics.text()
    }

    /// Removes the gauges of providers and upstreams that the next configuration lacks.
    func forget(whatIsNotIn next: Configuration) {
        for name in context.providers.all.map(\.profile.name)
        where !next.providers.contains(where: { $0.name == name }) {
            parts.metrics.forget(gauge: "coatcheck_provider_breaker", [("provider", name.text)])
        }
        for name in upstreams where !next.upstreams.contains(where: { $0.settings?.name == name }) {
            parts.metrics.forget(gauge: "coatcheck_relay_calls_under_way", [("upstream", name.text)])
        }
    }
}

/// Shows each provider's state on the management listener.
enum ProviderHealth {
    static func all(_ providers: ProviderDirectory) -> [ManagementHealth.Provider] {
        providers.all.map { client in
            let profile = client.profile
            let inspected = client as? any ProviderInspection
            let failures = inspected?.failuresInARow ?? 0
            return ManagementHealth.Provider(
                name: profile.name, kind: profile.kind, state: state(inspected?.breaker, failures),
                details: [
                    ("breaker", .string(word(inspected?.breaker))), ("issuer", .string(profile.issuer)),
                    ("failures_in_a_row", .number(String(failures))),
                ], warnings: inspected?.warnings ?? [])
        }
    }

    /// The number of consecutive failures from which a provider counts as failing.
    ///
    /// A single failure may be accidental.
    private static let failing = 2

    /// Returns the word for `/readyz`: `open` while the breaker refuses calls, `failing` after several failed calls.
    static func state(_ breaker: CircuitBreaker.State?, _ failures: Int) -> String {
        switch breaker {
        case .open?, .halfOpen?: "open"
        case .closed?: failures >= failing ? "failing" : "ok"
        case nil: "unknown"
        }
    }

    /// Sets the breakers' gauges: 0 closed, 1 half open, 2 open.
    static func measure(_ providers: ProviderDirectory, _ metrics: MetricsRegistry) {
        for client in providers.all {
            guard let breaker = (client as? any ProviderInspection)?.breaker else { continue }
            let value: Double =
                switch breaker {
                case .closed: 0
                case .halfOpen: 1
                case .open: 2
                }
            metrics.gauge("coatcheck_provider_breaker", [("provider", client.profile.name.text)]).set(value)
        }
    }

    private static func word(_ breaker: CircuitBreaker.State?) -> String {
        switch breaker {
        case .closed?: "closed"
        case .halfOpen?: "half_open"
        case .open?: "open"
        case nil: "unknown"
        }
    }
}
