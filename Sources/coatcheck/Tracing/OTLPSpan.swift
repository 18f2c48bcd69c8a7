import Broker
import Synchronization

/// A span under way.
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
    /// Guards what changes while it is under way.
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
