import Broker
import BrokerHTTP
import BrokerProviders

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
                ])
        }
    }

    /// From how many failures in a row on a provider fails: one is anybody's.
    private static let failing = 2

    /// Returns the word for `/readyz`: `open` while the breaker refuses calls, `failing` when the last calls failed.
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
