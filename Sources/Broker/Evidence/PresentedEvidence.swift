/// The evidence that a request shows in addition to a session token, and the request that a proof has to match.
package struct PresentedEvidence: Sendable {
    /// The values of the request's `DPoP` header fields.
    package let proofs: [String]
    /// The passes in the request, from the cookie and the header field.
    package let passes: [Secret]
    package let target: ProofTarget
    /// The address and limits that the signature check of a session's proof is charged to.
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

    /// Reads a request's evidence on demand, because few sessions belong to a key.
    package typealias Reading = () throws(BrokerProblem) -> PresentedEvidence

    /// No evidence, which is enough for an unbound session.
    package static let none = PresentedEvidence(proofs: [], target: ProofTarget(method: "", address: .own(path: "/")))

    /// Returns the request's only pass; nil if it has none.
    ///
    /// If the cookie and the header field have different passes, the method throws `invalid_request`, because an attacker
    /// may have planted one of them.
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
