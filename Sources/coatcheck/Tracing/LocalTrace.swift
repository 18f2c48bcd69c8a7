import Synchronization

/// The shared state of all spans that this process adds to one trace.
final class LocalTrace: Sendable {
    let id: String
    /// The trace id that third parties receive, which is always the broker's own.
    ///
    /// Even a trusted proxy may pass on a trace id that a stranger has chosen.
    let ownID: String
    /// Whether the trace continues a caller's trace.
    let continuesCaller: Bool
    private let callerSamples: Bool
    private let sampled: Atomic<Bool>

    /// Creates a new trace of the broker's own.
    init(isSampled: Bool) {
        id = TraceID.fresh()
        ownID = id
        continuesCaller = false
        callerSamples = false
        sampled = Atomic(isSampled)
    }

    /// Continues a caller's trace.
    ///
    /// The caller's decision about recording counts only if the caller is trusted.
    init(continuing parent: TraceParent, isTrusted: Bool, isSampled: Bool) {
        id = parent.traceID
        ownID = TraceID.fresh()
        continuesCaller = true
        callerSamples = parent.isSampled
        sampled = Atomic(isTrusted ? parent.isSampled : isSampled)
    }

    /// Whether the trace's spans are sent.
    var isSampled: Bool { sampled.load(ordering: .relaxed) }

    /// Adopts the caller's decision about recording, after the caller has authenticated.
    func believeCaller() {
        if continuesCaller { sampled.store(callerSamples, ordering: .relaxed) }
    }
}
