import Synchronization

/// The state that all spans share that this process adds to one trace.
final class LocalTrace: Sendable {
    let id: String
    /// The id that third parties see: our own, whoever has chosen the trace's.
    ///
    /// A trusted proxy passes on what strangers send it.
    let ownID: String
    /// Whether a caller's context is continued.
    let continuesCaller: Bool
    private let callerSamples: Bool
    private let sampled: Atomic<Bool>

    /// Creates a trace of our own.
    init(isSampled: Bool) {
        id = TraceID.fresh()
        ownID = id
        continuesCaller = false
        callerSamples = false
        sampled = Atomic(isSampled)
    }

    /// Continues a caller's; a stranger's decision what is recorded counts for nothing.
    init(continuing parent: TraceParent, isTrusted: Bool, isSampled: Bool) {
        id = parent.traceID
        ownID = TraceID.fresh()
        continuesCaller = true
        callerSamples = parent.isSampled
        sampled = Atomic(isTrusted ? parent.isSampled : isSampled)
    }

    /// Whether its spans are sent.
    var isSampled: Bool { sampled.load(ordering: .relaxed) }

    /// Takes the caller's decision, who has proved to be one of us.
    func believeCaller() {
        if continuesCaller { sampled.store(callerSamples, ordering: .relaxed) }
    }
}
