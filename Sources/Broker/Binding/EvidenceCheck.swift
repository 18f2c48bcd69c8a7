/// Judges the evidence that a request shows for a bound session: a proof by its key, or a pass.
///
/// A session that is not bound needs none, and what is shown beside it is not looked at.
struct EvidenceCheck: Sendable {
    let context: BrokerContext

    /// Judges the evidence; throws why it is not enough.
    ///
    /// - Returns: the end of the pass, where it was a pass that counted.
    func check(
        _ read: PresentedEvidence.Reading, for session: LiveSession, _ binding: SessionBinding, token: Secret,
        _ demand: EvidenceDemand
    ) async throws(BrokerProblem) -> WallTime? {
        if case .none = demand { return nil }
        let evidence = try read()
        do throws(BrokerProblem) {
            guard evidence.proofs.isEmpty else {
                try await ProofCheck(context: context).take(
                    try candidate(evidence, binding, token), of: session.tokenDigest, paidBy: evidence.charge)
                note("accepted", session)
                return nil
            }
            return try pass(evidence, session, binding, demand)
        } catch {
            if let refusal = error.proof { note(refusal.result, session) }
            throw error
        }
    }

    /// Judges what is cheap, and takes nothing: for who only wants to know whether it is worth reading on.
    ///
    /// - Returns: whether the evidence is good; a proof's signature was not looked at.
    func look(
        _ read: PresentedEvidence.Reading, for session: LiveSession, _ binding: SessionBinding, token: Secret
    ) throws(BrokerProblem) -> Bool {
        let evidence = try read()
        guard evidence.proofs.isEmpty else {
            _ = try candidate(evidence, binding, token)
            return false
        }
        _ = try pass(evidence, session, binding, .any)
        return true
    }

    private func candidate(
        _ evidence: PresentedEvidence, _ binding: SessionBinding, _ token: Secret
    ) throws(BrokerProblem) -> ProofVerifier.Candidate {
        do throws(ProofRefusal) {
            return try ProofCheck(context: context).candidate(
                evidence, token: token, thumbprint: binding.thumbprint)
        } catch { throw BrokerProblem(error) }
    }

    private func pass(
        _ evidence: PresentedEvidence, _ session: LiveSession, _ binding: SessionBinding, _ demand: EvidenceDemand
    ) throws(BrokerProblem) -> WallTime {
        guard let pass = try evidence.pass(), case .any = demand, binding.policy.evidence == .pass else {
            throw BrokerProblem(ProofRefusal.required)
        }
        do throws(ProofRefusal) {
            return try session.pass(pass, at: context.clock.now(), by: context.vault).expiresAt
        } catch { throw BrokerProblem(error) }
    }

    private func note(_ result: String, _ session: LiveSession) {
        context.events.emit(
            .proofJudged(provider: session.facts.provider, client: session.facts.client, result: result))
    }
}

/// The evidence that a request shows beside a session token, and the request that a proof has to be about.
package struct PresentedEvidence: Sendable {
    /// The values of its `DPoP` fields.
    package let proofs: [String]
    /// The values of its passes, by cookie and field.
    package let passes: [Secret]
    package let target: ProofTarget
    /// The payer of the checks of its proofs, where they are a session's.
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

    /// Reads the evidence of a request, where a session asks for it: most belong to no key.
    package typealias Reading = () throws(BrokerProblem) -> PresentedEvidence

    /// No evidence: enough for a session that is not bound.
    package static let none = PresentedEvidence(proofs: [], target: ProofTarget(method: "", address: .own(path: "/")))

    /// The only pass, or nil; two that differ are 400: one of them was planted.
    func pass() throws(BrokerProblem) -> Secret? {
        guard let first = passes.first else { return nil }
        guard passes.dropFirst().allSatisfy({ $0.reveal().hasBytes(of: first.reveal()) }) else {
            throw BrokerProblem(
                .invalidRequest, detail: "The request has two different passes.",
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
