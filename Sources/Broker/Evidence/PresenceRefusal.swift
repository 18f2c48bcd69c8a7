/// The reason why a call does not show its user's presence, with the properties of its session that the answer depends on.
package struct PresenceRefusal: Sendable, Equatable {
    /// The fault of the presence proof; `required` if the call lacks a proof, or the session lacks a presence key.
    package let refusal: ProofRefusal
    /// Whether the session is bound, which decides the scheme of the `WWW-Authenticate` challenge.
    package let isBound: Bool
    /// Whether the call was made with a child session.
    ///
    /// For a child, the app has to repeat the call with the parent session, because only the parent has a presence key.
    package let isOfParent: Bool

    package init(_ refusal: ProofRefusal, isBound: Bool = true, isOfParent: Bool = false) {
        self.refusal = refusal
        self.isBound = isBound
        self.isOfParent = isOfParent
    }

    /// The `reason` in a `presence_invalid` problem; nil if the problem has another code.
    ///
    /// If the nonce of a session's own proof is refused, the problem's code is `use_dpop_nonce`. If the nonce of a presence
    /// proof is refused, the code is `presence_invalid` with the reason `nonce`.
    package var reason: String? { refusal == .nonce ? "nonce" : refusal.reason }

    /// The name of the refusal in metrics, which is either a reason or a problem code.
    package var result: String {
        switch refusal {
        case .required: ProblemCode.presenceRequired.rawValue
        case .limited: ProblemCode.rateLimited.rawValue
        default: reason ?? "malformed"
        }
    }

    /// All names of refusals that metrics may contain.
    package static var results: [String] {
        ProofRefusal.allCases.filter { $0 != .pass }.map { PresenceRefusal($0).result }
    }
}

extension BrokerProblem {
    /// Creates the problem for a call that does not show its user's presence.
    ///
    /// The app's cookie and session stay as they are.
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
