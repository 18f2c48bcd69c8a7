/// The evidence that a call lacks, added after the broker's refusal.
///
/// Each kind of evidence is added at most once, so that the call is not repeated forever.
struct Mending: Sendable {
    /// Whether the broker reported that this session is bound, regardless of the stored data.
    private(set) var isBound = false
    /// Whether the call has the nonce that it requested.
    private(set) var hasNonce = false
    private var isFresh = false
    /// Whether the user has stepped up for the call.
    var hasSteppedUp = false
    /// Whether the call has to prove the user's presence.
    var needsPresence = false
    /// The presence proof of the call; nil until the user has confirmed the call, and again after the broker has refused
    /// the proof.
    var presence: String?
    private var asksTwice = false

    /// Decides whether the call is sent again at once with new evidence.
    mutating func mends(_ problem: Problem, of call: Call) -> Bool {
        switch problem.code {
        case .useDPoPNonce: return once(&hasNonce)
        case .proofRequired: return call.evidence != .signIn && once(&isBound)
        case .proofInvalid where problem.reason == "pass": return once(&isBound)
        case .proofInvalid where problem.reason == "replayed":
            // The network may have sent the request twice, so the broker may have accepted another copy with the same
            // proof.
            return call.isRepeatable && once(&isFresh)
        default: return false
        }
    }

    /// Decides whether the user is asked to confirm a call, for the first time or a second time.
    mutating func asks(_ problem: Problem, for call: Call) -> Bool {
        guard presence != nil else {
            // If the broker refers a child session to its parent, the parent has to make the call.
            guard problem.code == .presenceRequired, problem.parent != true else { return false }
            return once(&needsPresence)
        }
        guard problem.code == .presenceInvalid else { return false }
        // The network may have sent the request twice, so the broker may have accepted another copy with the same
        // presence proof.
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
