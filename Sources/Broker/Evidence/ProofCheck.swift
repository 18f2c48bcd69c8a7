/// Checks the proofs of requests.
///
/// Signatures are verified off the event loops. Each proof is accepted only one time.
struct ProofCheck: Sendable {
    let context: BrokerContext

    private var verifier: ProofVerifier {
        ProofVerifier(vault: context.vault, origins: context.settings.proofOrigins, scope: context.memory.nonceScope)
    }

    /// The nonce that the broker gives to apps now.
    var nonce: String {
        ProofNonce.text(at: context.clock.now(), scope: context.memory.nonceScope, by: context.vault)
    }

    /// Checks everything in a proof except its signature; throws the reason if a check fails, or `required` if the request
    /// lacks a proof.
    func candidate(
        _ evidence: PresentedEvidence, token: Secret? = nil, tokenDigest: Digest? = nil, thumbprint: Digest? = nil
    ) throws(ProofRefusal) -> ProofVerifier.Candidate {
        try verifier.judge(
            DPoPProof(evidence.proofs),
            ProofVerifier.Demand(evidence.target, token: token, tokenDigest: tokenDigest, thumbprint: thumbprint),
            taken: context.memory.proofs, now: context.clock.now())
    }

    /// Charges the session and the address for a signature check, verifies the signature, and records the proof as used.
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
    /// If the proof's nonce is in the second period of its life, the broker's answer contains a new nonce.
    func take(_ candidate: ProofVerifier.Candidate) async throws(BrokerProblem) {
        if let refusal = await verified(candidate) { throw BrokerProblem(refusal) }
        try await takeVerified(candidate)
    }

    private func takeVerified(_ candidate: ProofVerifier.Candidate) async throws(BrokerProblem) {
        do throws(ProofRefusal) {
            // Record the proof in the process's memory first, because the memory limits the number of proofs of one key. So
            // this key can cause only a limited number of rows in the store.
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

    /// Returns the fault in the signature of a session's proof; nil if the signature is right.
    ///
    /// The session and the address are charged before the check.
    func verified(
        _ candidate: ProofVerifier.Candidate, of session: Digest, paidBy charge: ProofCharge
    ) async throws(BrokerProblem) -> ProofRefusal? {
        try await charge.check(of: session) { await verified(candidate) }
    }

    /// Returns the fault in a proof's signature; nil if the signature is right.
    func verified(_ candidate: ProofVerifier.Candidate) async -> ProofRefusal? {
        await Self.verified(candidate, verifier)
    }

    /// Verifies a proof's signature off the event loops, because this takes some tens of microseconds.
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
    /// Creates the problem for refused evidence.
    ///
    /// The app's cookie and session stay as they are.
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
