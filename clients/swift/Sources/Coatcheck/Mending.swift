/// The things that a call lacks, put right where the broker refuses it: in each way once, so that no refusal makes a loop.
struct Mending: Sendable {
    /// Whether the broker said that this session is a bound one, whatever is known of it here.
    private(set) var isBound = false
    /// Whether the call has the nonce that it asked for.
    private(set) var hasNonce = false
    private var isFresh = false
    /// Whether the user has stepped up for the call.
    var hasSteppedUp = false
    /// Whether the call has to show that the user is there.
    var needsPresence = false
    /// The proof of it, good until it was refused.
    var presence: String?
    private var asksTwice = false

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

    /// Decides whether the user is asked for a call, for the first time or once more.
    mutating func asks(_ problem: Problem, for call: Call) -> Bool {
        guard presence != nil else {
            // A child's parent makes the call itself.
            guard problem.code == .presenceRequired, problem.parent != true else { return false }
            return once(&needsPresence)
        }
        guard problem.code == .presenceInvalid else { return false }
        // The network sent it twice: the other one may have done what it asks for.
        guard problem.reason == "nonce" || (problem.reason == "replayed" && call.isRepeatable) else { return false }
        guard once(&asksTwice) else { return false }
        presence = nil
        return true
    }

    private func once(_ done: inout Bool) -> Bool {
        defer { done = true }
        return !done
    }
}
