/// The evidence in a request in addition to its session token, and the method and address that a proof has to match.
package struct PresentedEvidence: Sendable {
    /// The values of the request's `DPoP` header fields.
    package let proofs: [String]
    /// The passes in the request.
    ///
    /// One may be in the cookie, and one in the header field.
    package let passes: [Secret]
    package let target: ProofTarget
    /// The charge for checking the signature of a session's proof.
    package let charge: ProofCharge

    /// Creates the evidence of a request.
    package init(
        proofs: [String], passes: [Secret] = [], target: ProofTarget, charge: ProofCharge = .nobody
    ) {
        self.proofs = proofs
        self.passes = passes
        self.target = target
        self.charge = charge
    }

    /// A closure that reads a request's evidence.
    ///
    /// The broker calls the closure only for bound sessions, because most sessions are unbound.
    package typealias Reading = () throws(BrokerProblem) -> PresentedEvidence

    /// The evidence of a request for an unbound session, which is empty.
    package static let none = PresentedEvidence(proofs: [], target: ProofTarget(method: "", address: .own(path: "/")))

    /// Returns the request's pass; nil if the request has none.
    ///
    /// If the cookie and the header field have different passes, the method throws `invalid_request`, because one of the two
    /// may come from an attacker.
    func pass() throws(BrokerProblem) -> Secret? {
        guard let first = passes.first else { return nil }
        guard passes.dropFirst().allSatisfy({ $0.reveal().hasBytes(of: first.reveal()) }) else {
            throw BrokerProblem(
                .invalidRequest, detail: "The request has two different passes.",
                with: .fields([FieldFault("Coatcheck-Pass", .conflict)]))
        }
        return first
    }
}
