import Broker

/// What makes the process's spans, and what sends them.
struct ProcessTracing: Sendable {
    let exporter: OTLPExporter
    let starter: TraceStarter
    private let share: SampledShare

    /// Creates it; nil where nothing is traced.
    init?(_ settings: TracingSettings?, metrics: MetricsRegistry, log: ProcessLog, clock: BrokerClock) {
        guard let settings else { return nil }
        let exporter = OTLPExporter(settings, metrics: metrics, log: log, clock: clock)
        let tracer = OTLPTracer(sample: settings.sample, finished: { exporter.add($0) })
        self.exporter = exporter
        starter = tracer.starter
        share = tracer.share
    }

    /// Takes what a reloaded configuration says; where traces go takes a restart.
    func adopt(_ settings: TracingSettings?) { if let settings { share.adopt(settings.sample) } }
}
