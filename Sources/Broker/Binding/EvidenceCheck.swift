/// Judges the evidence that a request shows for a bound session: a proof by its key, or a pass.
struct EvidenceCheck: Sendable {
    let context: BrokerContext

    /// Judges the evidence; throws why it is not enough.
    ///
    /// A session that is not bound needs none, and what is shown beside it is not looked at.
    ///
    /// - Returns: when the pass ends, where it was a pass that counted.
    func check(
        _ read: PresentedEvidence.Reading, for session: LiveSession, token: Secret, _ demand: EvidenceDemand
    ) async throws(BrokerProblem) -> WallTime? {
        guard let binding = session.binding else { return nil }
        if case .none = demand { return nil }
        let evidence = try read()
        do throws(BrokerProblem) {
            guard evidence.proofs.isEmpty else {
                try await ProofCheck(context: context).take(try candidate(evidence, binding, token))
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
    func look(_ read: PresentedEvidence.Reading, for session: LiveSession, token: Secret) throws(BrokerProblem) {
        guard let binding = session.binding else { return }
        let evidence = try read()
        guard evidence.proofs.isEmpty else {
            _ = try candidate(evidence, binding, token)
            return
        }
        _ = try pass(evidence, session, binding, .any)
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
            return try SessionPass(pass, of: session.token, at: context.clock.now(), by: context.vault).expiresAt
        } catch { throw BrokerProblem(error) }
    }

    private func note(_ result: String, _ session: LiveSession) {
        context.events.emit(
            .proofJudged(provider: session.facts.provider, client: session.facts.client, result: result))
    }
}
