import Broker
import Synchronization

/// A span in progress.
final class OTLPSpan: TraceSpan {
    private struct State {
        var name: String
        var attributes: [String: FinishedSpan.Value] = [:]
        var hasFailed = false
        var hasEnded = false
    }

    private let kind: TraceKind
    private let id: String
    private let parentID: String?
    private let trace: LocalTrace
    private let start: UInt64
    private let tracer: OTLPTracer
    /// Guards the values that change during the span.
    private let state: Mutex<State>

    init(_ name: String, _ kind: TraceKind, in trace: LocalTrace, parentID: String?, tracer: OTLPTracer) {
        self.kind = kind
        self.parentID = parentID
        self.trace = trace
        self.tracer = tracer
        id = TraceID.freshSpan()
        start = tracer.nanoseconds()
        state = Mutex(State(name: name))
    }

    var traceID: String { trace.id }

    var traceparent: String { TraceParent(traceID: trace.id, spanID: id, isSampled: trace.isSampled).text }

    var ownTraceparent: String { TraceParent(traceID: trace.ownID, spanID: id, isSampled: trace.isSampled).text }

    var continuesCaller: Bool { trace.continuesCaller }

    func child(_ name: String, _ kind: TraceKind) -> any TraceSpan {
        OTLPSpan(name, kind, in: trace, parentID: id, tracer: tracer)
    }

    func set(_ name: StaticString, _ value: String) {
        state.withLock { $0.attributes[name.description] = .text(value) }
    }

    func set(_ name: StaticString, _ value: Int) {
        state.withLock { $0.attributes[name.description] = .integer(value) }
    }

    func rename(_ name: String) { state.withLock { $0.name = name } }

    func believeCaller() { trace.believeCaller() }

    func end(_ fault: String?) {
        let end = tracer.nanoseconds()
        let last: State? = state.withLock { state in
            guard !state.hasEnded else { return nil }
            state.hasEnded = true
            if let fault {
                state.hasFailed = true
                if state.attributes["error.type"] == nil { state.attributes["error.type"] = .text(fault) }
            }
            return state
        }
        guard let last, trace.isSampled else { return }
        tracer.finished(
            FinishedSpan(
                traceID: trace.id, spanID: id, parentID: parentID, name: last.name, kind: kind, start: start,
                end: max(start, end), attributes: last.attributes, hasFailed: last.hasFailed))
    }
}

/// A span that has ended and waits to be sent.
struct FinishedSpan: Sendable {
    /// The value of an attribute.
    enum Value: Sendable, Equatable {
        case text(String)
        case integer(Int)
    }

    let traceID: String
    let spanID: String
    let parentID: String?
    let name: String
    let kind: TraceKind
    /// Nanoseconds since 1970.
    let start: UInt64
    let end: UInt64
    let attributes: [String: Value]
    let hasFailed: Bool
}

/// The tracer of this process, which makes spans, decides about recording, and reads W3C contexts.
struct OTLPTracer: Sendable {
    /// The fraction of traces that are recorded.
    ///
    /// For a trusted caller's trace, the caller's `traceparent` decides instead.
    let share: SampledShare
    /// Reads the wall clock, in nanoseconds since 1970.
    let nanoseconds: @Sendable () -> UInt64
    /// Receives a span that has ended.
    ///
    /// The closure must not block.
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

    /// Decides at random whether to record a trace.
    ///
    /// The trace's id must not decide, because a stranger may have chosen it.
    private func decide() -> Bool {
        let sample = share.value
        return sample >= 1 || (sample > 0 && Double.random(in: 0..<1) < sample)
    }
}

/// The fraction of traces that are recorded, which a reload may change.
final class SampledShare: Sendable {
    private let bits: Atomic<UInt64>

    init(_ value: Double) { bits = Atomic(value.bitPattern) }

    /// The fraction, from 0 to 1.
    var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }

    func adopt(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }
}
