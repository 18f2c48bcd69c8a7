/// Checks the proofs of requests.
///
/// Signatures are verified off the event loops, and each proof is accepted only one time.
struct ProofCheck: Sendable {
    let context: BrokerContext

    private var verifier: ProofVerifier {
        ProofVerifier(vault: context.vault, origins: context.settings.proofOrigins, scope: context.memory.nonceScope)
    }

    /// The nonce that the broker issues now.
    var nonce: String {
        ProofNonce.text(at: context.clock.now(), scope: context.memory.nonceScope, by: context.vault)
    }

    /// Checks everything in a proof except its signature; throws `required` if the proof is missing.
    func candidate(
        _ evidence: PresentedEvidence, token: Secret? = nil, tokenDigest: Digest? = nil, thumbprint: Digest? = nil
    ) throws(ProofRefusal) -> ProofVerifier.Candidate {
        try verifier.judge(
            DPoPProof(evidence.proofs),
            ProofVerifier.Demand(evidence.target, token: token, tokenDigest: tokenDigest, thumbprint: thumbprint),
            taken: context.memory.proofs, now: context.clock.now())
    }

    /// Charges for the signature check of a session's proof, verifies the signature, and records the proof as used.
    func take(
        _ candidate: ProofVerifier.Candidate, of session: Digest, paidBy charge: ProofCharge
    ) async throws(BrokerProblem) {
        if let refusal = try await verified(candidate, of: session, paidBy: charge) { throw BrokerProblem(refusal) }
        try await takeVerified(candidate)
    }

    /// Verifies a proof's signature and records the proof as used.
    ///
    /// For a request with an unsafe method, the proof is accepted only one time on all replicas together.
    ///
    /// If the proof's nonce is in its second period, the answer brings a new nonce.
    func take(_ candidate: ProofVerifier.Candidate) async throws(BrokerProblem) {
        if let refusal = await verified(candidate) { throw BrokerProblem(refusal) }
        try await takeVerified(candidate)
    }

    private func takeVerified(_ candidate: ProofVerifier.Candidate) async throws(BrokerProblem) {
        do throws(ProofRefusal) {
            // Record the proof in the process's memory first. The memory limits the proofs of one key, and thereby the rows
            // that this key can cause in the store.
            try context.memory.proofs.take(
                candidate.name, of: candidate.thumbprint, nonce: candidate.nonce, now: context.clock.now())
        } catch { throw BrokerProblem(error) }
        if !candidate.isSafe, let shared = context.shared { try await takeOnce(candidate, shared) }
        if candidate.nonce.isAging { RequestScope.current?.givesNonce() }
    }

    private func takeOnce(
        _ candidate: ProofVerifier.Candidate, _ store: any SharedStore
    ) async throws(BrokerProblem) {
        guard try await isFirst(candidate, store) else { throw BrokerProblem(ProofRefusal.replayed) }
    }

    /// Records a proof as used in the store; returns whether this was its first use.
    func isFirst(
        _ candidate: ProofVerifier.Candidate, _ store: any SharedStore
    ) async throws(BrokerProblem) -> Bool {
        let until = context.clock.now().advanced(by: ProofNonce.lifetime)
        do throws(StoreFailure) { return try await store.takeProof(candidate.name, until: until) } catch {
            context.events.emit(.storeFailed(operation: "takeProof", detail: "\(error)"))
            throw BrokerProblem(error)
        }
    }

    /// Returns the fault in the signature of a session's proof; nil for a right signature.
    ///
    /// The check is charged before it is made.
    func verified(
        _ candidate: ProofVerifier.Candidate, of session: Digest, paidBy charge: ProofCharge
    ) async throws(BrokerProblem) -> ProofRefusal? {
        try await charge.check(of: session) { await verified(candidate) }
    }

    /// Returns the fault in a proof's signature; nil for a right signature.
    func verified(_ candidate: ProofVerifier.Candidate) async -> ProofRefusal? {
        await Self.verified(candidate, verifier)
    }

    /// Verifies a signature off the event loops, because this takes some tens of microseconds.
    @concurrent private static func verified(
        _ candidate: ProofVerifier.Candidate, _ verifier: ProofVerifier
    ) async -> ProofRefusal? {
        do throws(ProofRefusal) {
            try verifier.verify(candidate)
            return nil
        } catch { return error }
    }
}

extension BrokerProblem {
    /// Creates the problem for refused evidence, which leaves the cookie and the session unchanged.
    package init(_ refusal: ProofRefusal) {
        switch refusal {
        case .required: self.init(.proofRequired, with: .proof(refusal))
        case .nonce: self.init(.useDPoPNonce, with: .proof(refusal))
        case .limited:
            self.init(
                .rateLimited, privateDetail: "proofs of one key", with: .proof(refusal), retryAfter: .seconds(60))
        default: self.init(.proofInvalid, privateDetail: refusal.reason, with: .proof(refusal))
        }
    }
}
