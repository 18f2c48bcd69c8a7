/// Checks the evidence that a request shows for a bound session, which is a proof by the session's key or a pass.
///
/// An unbound session needs no evidence, and evidence that is shown anyway is ignored.
struct EvidenceCheck: Sendable {
    let context: BrokerContext

    /// Checks the evidence; throws the reason if it is insufficient.
    ///
    /// - Returns: The end of the pass, if a pass was accepted.
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

    /// Checks the evidence, but leaves a proof's signature unchecked and the proof unused.
    ///
    /// The caller uses this to decide whether to read the body.
    ///
    /// - Returns: Whether the evidence is good. For a proof this is false, because its signature is still unchecked.
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
    /// If the cookie and the header field have different passes, the answer is a 400, because an attacker may have planted
    /// one of them.
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

/// The request that a proof has to match in method and address (`htm`, `htu`).
package struct ProofTarget: Sendable {
    package enum Address: Sendable {
        /// A path of this broker, as the request names it and without its query; the proof may name any of the broker's
        /// origins.
        case own(path: String)
        /// The address of another service that the app called, which a backend sends to the broker for the check; nil for a
        /// malformed address.
        case foreign(ProofAddress?)
    }

    package let method: String
    package let address: Address

    package init(method: String, address: Address) {
        self.method = method
        self.address = address
    }

    /// Whether the method is safe (RFC 9110 section 9.2.1).
    ///
    /// A used proof for a safe method is remembered only in this process, and not in the shared store.
    var isSafe: Bool { ["GET", "HEAD", "OPTIONS", "TRACE"].contains(method) }
}

/// The evidence that a route requires of a bound session.
package enum EvidenceDemand: Sendable {
    /// A proof or, if the client's evidence is a pass, a pass.
    case any
    /// A proof is required, because the route issues something that lasts longer than a pass.
    case proof
    /// No evidence is required, because the calling backend itself checks the proof with the `cnf` of the answer.
    case none
}
