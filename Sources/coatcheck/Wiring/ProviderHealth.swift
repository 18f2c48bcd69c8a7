import Broker
import BrokerHTTP
import BrokerProviders

/// Shows each provider's state on the management listener.
enum ProviderHealth {
    static func all(_ providers: ProviderDirectory) -> [ManagementHealth.Provider] {
        providers.all.map { client in
            let profile = client.profile
            let breaker = (client as? any ProviderInspection)?.breaker
            return ManagementHealth.Provider(
                name: profile.name, kind: profile.kind, state: word(breaker),
                details: [
                    ("breaker", .string(word(breaker))), ("issuer", .string(profile.issuer)),
                    ("failures_in_a_row", .number(failures(breaker))),
                ])
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

    private static func failures(_ breaker: CircuitBreaker.State?) -> String {
        if case .closed(let failures)? = breaker { return String(failures) }
        return "0"
    }
}
