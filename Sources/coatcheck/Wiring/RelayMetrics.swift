import Broker
import BrokerRelay

/// Measures the relay by upstream: time to the answer's head, and answers by the class of their status.
struct RelayMetrics: Sendable {
    private let metrics: MetricsRegistry

    init(_ metrics: MetricsRegistry) { self.metrics = metrics }

    var observer: Relay.Observer {
        { [metrics] upstream, duration, status in
            let result = status.map { "\($0 / 100)xx" } ?? "none"
            metrics.histogram("coatcheck_relay_duration_seconds", [("upstream", upstream.text)])
                .recordNanoseconds(duration.nanoseconds)
            metrics.counter("coatcheck_relay_answers_total", [("upstream", upstream.text), ("result", result)])
                .increment(by: 1)
        }
    }
}
