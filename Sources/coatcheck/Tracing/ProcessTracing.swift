import Broker

/// The maker of the process's spans, and their sender.
struct ProcessTracing: Sendable {
    let exporter: OTLPExporter
    let starter: TraceStarter
    private let share: SampledShare

    /// Creates the tracing; nil if it is off.
    init?(_ settings: TracingSettings?, metrics: MetricsRegistry, log: ProcessLog, clock: BrokerClock) {
        guard let settings else { return nil }
        let exporter = OTLPExporter(settings, metrics: metrics, log: log, clock: clock)
        let tracer = OTLPTracer(sample: settings.sample, finished: { exporter.add($0) })
        self.exporter = exporter
        starter = tracer.starter
        share = tracer.share
    }

    /// Adopts a reloaded configuration.
    ///
    /// Only the fraction of recorded traces can change. Another destination for traces needs a restart.
    func adopt(_ settings: TracingSettings?) { if let settings { share.adopt(settings.sample) } }
}
