/// A call's evidence, put right where the broker refuses it: in each way once, so that no refusal makes a loop.
struct Mending: Sendable {
    /// Whether the broker said that this session is a bound one, whatever is known of it here.
    private(set) var isBound = false
    private var hasNonce = false
    private var isFresh = false

    /// Decides whether the call is to be sent again at once, with evidence made anew.
    mutating func mends(_ problem: Problem, of call: Call) -> Bool {
        switch problem.code {
        case .useDPoPNonce: return once(&hasNonce)
        case .proofRequired: return call.evidence != .signIn && once(&isBound)
        case .proofInvalid where problem.reason == "pass": return once(&isBound)
        case .proofInvalid where problem.reason == "replayed":
            // The network sent it twice: the other one may have done what it asks for.
            return call.isRepeatable && once(&isFresh)
        default: return false
        }
    }

    private func once(_ done: inout Bool) -> Bool {
        defer { done = true }
        return !done
    }
}
