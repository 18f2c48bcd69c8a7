import Broker
import BrokerRelay

/// Measures the relay by upstream: time to the answer's head, and answers by the class of their status.
struct RelayMetrics: Sendable {
    private struct Key: Hashable {
        let upstream: String
        let result: String
    }

    private typealias Series = (durations: HistogramSeries, answers: CounterSeries)

    private let metrics: MetricsRegistry
    private let known = KnownSeries<Key, Series>()

    init(_ metrics: MetricsRegistry) { self.metrics = metrics }

    var observer: Relay.Observer {
        { [metrics, known] upstream, duration, status in
            let result = status.map { Self.classes[$0 / 100] ?? "other" } ?? "none"
            let series = known.find(Key(upstream: upstream.text, result: result)) {
                (
                    metrics.histogram("coatcheck_relay_duration_seconds", [("upstream", upstream.text)]),
                    metrics.counter(
                        "coatcheck_relay_answers_total", [("upstream", upstream.text), ("result", result)])
                )
            }
            series.durations.recordNanoseconds(duration.nanoseconds)
            series.answers.increment(by: 1)
        }
    }

    private static let classes = [2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"]
}
