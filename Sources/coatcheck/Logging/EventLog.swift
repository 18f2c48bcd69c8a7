import Broker
import Synchronization

/// Turns the events of the module `Broker` into log lines and metrics.
///
/// `EventRecord` decides the text of the line and the name of the metric.
struct EventLog: Sendable {
    let log: ProcessLog
    let metrics: MetricsRegistry
    private let unchecked = FirstTimes()

    init(log: ProcessLog, metrics: MetricsRegistry) {
        self.log = log
        self.metrics = metrics
    }

    /// The port through which the module `Broker` emits events.
    var sink: EventSink { EventSink { [self] event in take(event) } }

    private func take(_ event: BrokerEvent) {
        let record = EventRecord(event)
        if let metric = record.metric {
            metrics.counter("coatcheck_\(metric)_total", record.labels).increment(by: Int64(record.count))
        }
        guard let line = record.line, record.isOnceFor.map(unchecked.isFirst) ?? true else { return }
        log.write(line.level, line.message, line.members)
    }
}

/// Remembers the providers whose line was already logged, so that the line is logged once for each provider.
final class FirstTimes: Sendable {
    private let seen = Mutex<Set<ProviderName>>([])

    /// Returns whether this is the first call for the provider.
    func isFirst(_ provider: ProviderName) -> Bool { seen.withLock { $0.insert(provider).inserted } }
}
