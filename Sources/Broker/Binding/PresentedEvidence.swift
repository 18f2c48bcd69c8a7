/// The evidence that a request shows beside a session token, and the request that a proof has to be about.
package struct PresentedEvidence: Sendable {
    /// The values of its `DPoP` fields.
    package let proofs: [String]
    /// The values of its passes, by cookie and field.
    package let passes: [Secret]
    package let target: ProofTarget

    /// Creates the evidence of a request.
    package init(proofs: [String], passes: [Secret] = [], target: ProofTarget) {
        self.proofs = proofs
        self.passes = passes
        self.target = target
    }

    /// Reads the evidence of a request, where a session asks for it: most belong to no key.
    package typealias Reading = () throws(BrokerProblem) -> PresentedEvidence

    /// No evidence: enough for a session that is not bound.
    package static let none = PresentedEvidence(proofs: [], target: ProofTarget(method: "", address: .own(path: "/")))

    /// The only pass, or nil; two that differ are 400: one of them was planted.
    func pass() throws(BrokerProblem) -> Secret? {
        guard let first = passes.first else { return nil }
        guard passes.dropFirst().allSatisfy({ $0.reveal().hasBytes(of: first.reveal()) }) else {
            throw BrokerProblem(
                .invalidRequest, detail: "The request has two passes that differ.",
                errors: [FieldFault("Coatcheck-Pass", .conflict)])
        }
        return first
    }
}

/// The request that a proof has to be about: its method and its address (`htm`, `htu`).
package struct ProofTarget: Sendable {
    package enum Address: Sendable {
        /// A path of this broker, as it came and without its query, at any of the broker's origins.
        case own(path: String)
        /// Another service's address, that a backend asks about; nil for one that no proof can be about.
        case foreign(ProofAddress?)
    }

    package let method: String
    package let address: Address

    package init(method: String, address: Address) {
        self.method = method
        self.address = address
    }

    /// Whether the method changes nothing (RFC 9110 section 9.2.1): its proofs are remembered by this process alone.
    var isSafe: Bool { ["GET", "HEAD", "OPTIONS", "TRACE"].contains(method) }
}

/// The evidence that a route wants of a bound session.
package enum EvidenceDemand: Sendable {
    /// A proof or, where the client's evidence is a pass, a pass.
    case any
    /// A proof: the route gives something that outlives a pass.
    case proof
    /// None: the backend that asks checks proofs itself, by `cnf`.
    case none
}
