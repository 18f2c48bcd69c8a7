/// The reason why a call does not show its user's presence, with properties of its session.
package struct PresenceRefusal: Sendable, Equatable {
    /// The fault of the proof; `required` if the proof, or the key for verifying it, is missing.
    package let refusal: ProofRefusal
    /// Whether the session belongs to a key, which decides the challenge's scheme.
    package let isBound: Bool
    /// Whether the session is a child.
    ///
    /// If so, the app has to make the call with the parent session.
    package let isOfParent: Bool

    package init(_ refusal: ProofRefusal, isBound: Bool = true, isOfParent: Bool = false) {
        self.refusal = refusal
        self.isBound = isBound
        self.isOfParent = isOfParent
    }

    /// The `reason` in a `presence_invalid` problem; nil if the problem has another code.
    ///
    /// For a proof by the session's own key, a refused nonce is a problem of its own (`use_dpop_nonce`). For a presence
    /// proof, it is the reason `nonce`.
    package var reason: String? { refusal == .nonce ? "nonce" : refusal.reason }

    /// The name of the refusal in metrics, which is a reason or a code.
    package var result: String {
        switch refusal {
        case .required: ProblemCode.presenceRequired.rawValue
        case .limited: ProblemCode.rateLimited.rawValue
        default: reason ?? "malformed"
        }
    }

    /// All names that metrics may contain.
    package static var results: [String] {
        ProofRefusal.allCases.filter { $0 != .pass }.map { PresenceRefusal($0).result }
    }
}

extension BrokerProblem {
    /// Creates the problem for missing presence, which leaves the cookie and the session unchanged.
    init(_ refusal: PresenceRefusal, detail: String? = nil) {
        switch refusal.refusal {
        case .required: self.init(.presenceRequired, detail: detail, with: .presence(refusal))
        case .limited:
            self.init(
                .rateLimited, privateDetail: "proofs of presence", with: .presence(refusal), retryAfter: .seconds(60))
        default:
            self.init(.presenceInvalid, detail: detail, privateDetail: refusal.reason, with: .presence(refusal))
        }
    }
}
