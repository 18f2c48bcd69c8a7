import Broker

/// The tracer of this process: makes spans, decides which traces are recorded, reads W3C contexts.
struct OTLPTracer: Sendable {
    /// The part of the traces that is recorded, where no caller whom we believe has decided.
    let share: SampledShare
    /// Reads the wall clock: nanoseconds since 1970.
    let nanoseconds: @Sendable () -> UInt64
    /// Takes a span that has ended; must not block.
    let finished: @Sendable (FinishedSpan) -> Void

    init(
        sample: Double, nanoseconds: @escaping @Sendable () -> UInt64 = SystemClock.nanoseconds,
        finished: @escaping @Sendable (FinishedSpan) -> Void
    ) {
        share = SampledShare(sample)
        self.nanoseconds = nanoseconds
        self.finished = finished
    }

    /// The port through which the broker begins spans.
    var starter: TraceStarter {
        TraceStarter { [self] name, kind, origin in
            guard let origin, let parent = TraceParent(origin.traceparent) else {
                return OTLPSpan(name, kind, in: LocalTrace(isSampled: decide()), parentID: nil, tracer: self)
            }
            let trace = LocalTrace(continuing: parent, isTrusted: origin.isTrusted, isSampled: decide())
            return OTLPSpan(name, kind, in: trace, parentID: parent.spanID, tracer: self)
        }
    }

    /// Decides by chance and not by the trace's id, which a stranger may have chosen.
    private func decide() -> Bool {
        let sample = share.value
        return sample >= 1 || (sample > 0 && Double.random(in: 0..<1) < sample)
    }
}
