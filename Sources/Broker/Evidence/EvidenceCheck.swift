/// Checks the evidence in a request with a bound session, which is a proof by the session's key or a pass.
///
/// An unbound session needs no evidence. If its request contains evidence, the broker ignores this evidence.
struct EvidenceCheck: Sendable {
    let context: BrokerContext

    /// Checks the evidence; throws the reason if the evidence is insufficient.
    ///
    /// - Returns: The end of the accepted pass; nil if a proof was accepted, or if no evidence was required.
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

    /// Checks the evidence except for a proof's signature.
    ///
    /// A proof is not recorded as used.
    ///
    /// The caller needs the result before it reads the request's body.
    ///
    /// - Returns: True if a pass was accepted. False for a proof, because its signature has yet to be verified.
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
