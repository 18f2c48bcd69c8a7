import Broker
import Tracing

/// The tracer of this process: makes spans, decides which traces are recorded, reads and writes W3C contexts.
struct OTLPTracer: Tracer {
    /// The part of the traces that is recorded, where no caller whom we believe has decided.
    let share: SampledShare
    /// Takes a span that has ended; must not block.
    let finished: @Sendable (FinishedSpan) -> Void

    init(sample: Double, finished: @escaping @Sendable (FinishedSpan) -> Void) {
        share = SampledShare(sample)
        self.finished = finished
    }

    func startSpan<Instant: TracerInstant>(
        _ operationName: String, context: @autoclosure () -> ServiceContext, ofKind kind: SpanKind,
        at instant: @autoclosure () -> Instant, function: String, file fileID: String, line: UInt
    ) -> OTLPSpan {
        var context = context()
        let parent = context[TraceContextKey.self]
        let trace = parent?.trace ?? LocalTrace(isSampled: decide())
        let id = TraceID.freshSpan()
        context[TraceContextKey.self] = TraceContextKey.Value(trace: trace, spanID: id)
        return OTLPSpan(
            operationName, kind, id: id, parentID: parent?.spanID, trace, context,
            start: instant().nanosecondsSinceEpoch,
            tracer: self)
    }

    func activeSpan(identifiedBy context: ServiceContext) -> OTLPSpan? { nil }

    func forceFlush() {}

    func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract
    ) where Extract.Carrier == Carrier {
        guard let field = extractor.extract(key: "traceparent", from: carrier).flatMap({ TraceParent($0) }) else {
            return
        }
        context[TraceContextKey.self] = continued(field, isTrusted: false)
    }

    func inject<Carrier, Inject: Injector>(
        _ context: ServiceContext, into carrier: inout Carrier, using injector: Inject
    ) where Inject.Carrier == Carrier {
        guard let value = context[TraceContextKey.self], let span = value.spanID else { return }
        let field = TraceParent(traceID: value.trace.id, spanID: span, isSampled: value.trace.isSampled)
        injector.inject(field.text, forKey: "traceparent", into: &carrier)
    }

    /// The port through which the broker begins spans.
    var starter: TraceStarter {
        TraceStarter { [self] name, kind, origin in
            var context = ServiceContext.topLevel
            if let origin, let parent = TraceParent(origin.traceparent) {
                context[TraceContextKey.self] = continued(parent, isTrusted: origin.isTrusted)
            }
            return startSpan(name, context: context, ofKind: kind.spanKind)
        }
    }

    private func continued(_ parent: TraceParent, isTrusted: Bool) -> TraceContextKey.Value {
        TraceContextKey.Value(
            trace: LocalTrace(continuing: parent, isTrusted: isTrusted, isSampled: decide()), spanID: parent.spanID)
    }

    /// Decides by chance and not by the trace's id, which a stranger may have chosen.
    private func decide() -> Bool {
        let sample = share.value
        return sample >= 1 || (sample > 0 && Double.random(in: 0..<1) < sample)
    }
}

extension TraceKind {
    var spanKind: SpanKind { self == .server ? .server : .client }
}
