/// The reason why a call does not show its user's presence, and whose session it is.
package struct PresenceRefusal: Sendable, Equatable {
    /// `required` where there is no proof, or no key to judge it by.
    package let refusal: ProofRefusal
    /// Whether the session belongs to a key, which says the challenge's scheme.
    package let isBound: Bool
    /// Whether the session is a child: its parent makes the call itself.
    package let isOfParent: Bool

    package init(_ refusal: ProofRefusal, isBound: Bool = true, isOfParent: Bool = false) {
        self.refusal = refusal
        self.isBound = isBound
        self.isOfParent = isOfParent
    }

    /// The `reason` of `presence_invalid`: there a nonce that is not accepted has no code of its own.
    package var reason: String? { refusal == .nonce ? "nonce" : refusal.reason }

    /// The name in metrics: a reason, or a code.
    package var result: String {
        switch refusal {
        case .required: ProblemCode.presenceRequired.rawValue
        case .limited: ProblemCode.rateLimited.rawValue
        default: reason ?? "malformed"
        }
    }

    /// The names in metrics that there may be.
    package static var results: [String] {
        ProofRefusal.allCases.filter { $0 != .pass }.map { PresenceRefusal($0).result }
    }
}

extension BrokerProblem {
    /// Creates the problem of presence that is not shown; none clears a cookie, and none says that a session has ended.
    init(_ refusal: PresenceRefusal, detail: String? = nil) {
        switch refusal.refusal {
        case .required: self.init(.presenceRequired, detail: detail)
        case .limited: self.init(.rateLimited, privateDetail: "proofs of presence", retryAfter: .seconds(60))
        default: self.init(.presenceInvalid, detail: detail, privateDetail: refusal.reason)
        }
        presence = refusal
    }
}
