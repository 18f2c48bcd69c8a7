import Broker
import Synchronization
import Tracing

/// A span under way: swift-distributed-tracing's, and the broker's port.
///
/// Events and links are not kept, and of an error its type alone: its text may hold what nobody must read.
final class OTLPSpan: Tracing.Span, TraceSpan {
    private struct State {
        var name: String
        var attributes: SpanAttributes = [:]
        var hasFailed = false
        var hasEnded = false
    }

    let context: ServiceContext
    private let kind: SpanKind
    private let id: String
    private let parentID: String?
    private let trace: LocalTrace
    private let start: UInt64
    private let tracer: OTLPTracer
    /// Guards what changes while it is under way.
    private let state: Mutex<State>

    init(
        _ name: String, _ kind: SpanKind, id: String, parentID: String?, _ trace: LocalTrace, _ context: ServiceContext,
        start: UInt64, tracer: OTLPTracer
    ) {
        self.kind = kind
        self.id = id
        self.parentID = parentID
        self.trace = trace
        self.context = context
        self.start = start
        self.tracer = tracer
        state = Mutex(State(name: name))
    }

    // MARK: Tracing.Span

    var operationName: String {
        get { state.withLock { $0.name } }
        set { state.withLock { $0.name = newValue } }
    }

    var attributes: SpanAttributes {
        get { state.withLock { $0.attributes } }
        set { state.withLock { $0.attributes = newValue } }
    }

    var isRecording: Bool { trace.isSampled && !state.withLock { $0.hasEnded } }

    func setStatus(_ status: SpanStatus) { state.withLock { $0.hasFailed = status.code == .error } }

    func addEvent(_ event: SpanEvent) {}

    func addLink(_ link: SpanLink) {}

    func recordError<Instant: TracerInstant>(
        _ error: any Error, attributes: SpanAttributes, at instant: @autoclosure () -> Instant
    ) {
        set("error.type", "\(type(of: error))")
        state.withLock { $0.hasFailed = true }
    }

    func end<Instant: TracerInstant>(at instant: @autoclosure () -> Instant) {
        let end = instant().nanosecondsSinceEpoch
        let last: State? = state.withLock { state in
            defer { state.hasEnded = true }
            return state.hasEnded ? nil : state
        }
        guard let last, trace.isSampled else { return }
        tracer.finished(
            FinishedSpan(
                traceID: trace.id, spanID: id, parentID: parentID, name: last.name, kind: kind, start: start,
                end: max(start, end), attributes: last.attributes, hasFailed: last.hasFailed))
    }

    // MARK: TraceSpan

    var traceID: String { trace.id }

    var traceparent: String { TraceParent(traceID: trace.id, spanID: id, isSampled: trace.isSampled).text }

    var ownTraceparent: String { TraceParent(traceID: trace.ownID, spanID: id, isSampled: trace.isSampled).text }

    var continuesCaller: Bool { trace.continuesCaller }

    func child(_ name: String, _ kind: TraceKind) -> any TraceSpan {
        tracer.startSpan(name, context: context, ofKind: kind.spanKind)
    }

    func set(_ name: StaticString, _ value: String) { state.withLock { $0.attributes[name.description] = value } }

    func set(_ name: StaticString, _ value: Int) { state.withLock { $0.attributes[name.description] = value } }

    func rename(_ name: String) { operationName = name }

    func believeCaller() { trace.believeCaller() }

    func end(_ fault: String?) {
        if let fault {
            state.withLock { state in
                state.hasFailed = true
                if state.attributes["error.type"] == nil { state.attributes["error.type"] = fault }
            }
        }
        end(at: DefaultTracerClock.now)
    }
}
