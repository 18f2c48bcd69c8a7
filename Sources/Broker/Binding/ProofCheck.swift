/// Checks the proofs of requests: judges, verifies off the event loop, and takes each once.
struct ProofCheck: Sendable {
    let context: BrokerContext

    private var verifier: ProofVerifier {
        ProofVerifier(vault: context.vault, origins: context.settings.proofOrigins, scope: context.memory.nonceScope)
    }

    /// The nonce for the next proof.
    var nonce: String {
        ProofNonce.text(at: context.clock.now(), scope: context.memory.nonceScope, by: context.vault)
    }

    /// Judges all of a proof but its signature; throws `required` where there is none.
    func candidate(
        _ evidence: PresentedEvidence, token: Secret? = nil, tokenDigest: Digest? = nil, thumbprint: Digest? = nil
    ) throws(ProofRefusal) -> ProofVerifier.Candidate {
        try verifier.judge(
            DPoPProof(evidence.proofs),
            ProofVerifier.Demand(evidence.target, token: token, tokenDigest: tokenDigest, thumbprint: thumbprint),
            taken: context.memory.proofs, now: context.clock.now())
    }

    /// Verifies the signature of a session's proof, which is charged for first, and takes the proof as `take` does.
    func take(
        _ candidate: ProofVerifier.Candidate, of session: Digest, paidBy charge: ProofCharge
    ) async throws(BrokerProblem) {
        if let refusal = try await verified(candidate, of: session, paidBy: charge) { throw BrokerProblem(refusal) }
        try await takeVerified(candidate)
    }

    /// Verifies the signature and takes the proof, once over all replicas where its request changes something.
    ///
    /// An answer to a proof whose nonce is aging brings a new one.
    func take(_ candidate: ProofVerifier.Candidate) async throws(BrokerProblem) {
        if let refusal = await verified(candidate) { throw BrokerProblem(refusal) }
        try await takeVerified(candidate)
    }

    private func takeVerified(_ candidate: ProofVerifier.Candidate) async throws(BrokerProblem) {
        do throws(ProofRefusal) {
            // In this process first: it bounds what one key may make anybody store.
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

    /// Takes a proof by a row in the store; returns whether nobody took it before.
    func isFirst(
        _ candidate: ProofVerifier.Candidate, _ store: any SharedStore
    ) async throws(BrokerProblem) -> Bool {
        let until = context.clock.now().advanced(by: ProofNonce.lifetime)
        do throws(StoreFailure) { return try await store.takeProof(candidate.name, until: until) } catch {
            context.events.emit(.storeFailed(operation: "takeProof", detail: "\(error)"))
            throw BrokerProblem(error)
        }
    }

    /// Returns what is wrong with the signature of a session's proof, which is charged for before anybody looks at it.
    func verified(
        _ candidate: ProofVerifier.Candidate, of session: Digest, paidBy charge: ProofCharge
    ) async throws(BrokerProblem) -> ProofRefusal? {
        try await charge.check(of: session) { await verified(candidate) }
    }

    /// Returns what is wrong with a signature.
    func verified(_ candidate: ProofVerifier.Candidate) async -> ProofRefusal? {
        await Self.verified(candidate, verifier)
    }

    /// Arithmetic of some tens of microseconds, on no event loop.
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
    /// Creates the problem of evidence that is not accepted; none clears a cookie, and none says that a session has ended.
    package init(_ refusal: ProofRefusal) {
        switch refusal {
        case .required: self.init(.proofRequired)
        case .nonce: self.init(.useDPoPNonce)
        case .limited: self.init(.rateLimited, privateDetail: "proofs of one key", retryAfter: .seconds(60))
        default: self.init(.proofInvalid, privateDetail: refusal.reason)
        }
        proof = refusal
    }
}

/// The reason why evidence is not accepted: what the answer says, and all that is told of it.
package enum ProofRefusal: Error, Sendable, Hashable, CaseIterable {
    /// There is no proof, and no pass that counts.
    case required
    /// The nonce is not one of ours, or too old.
    case nonce
    /// The size, structure, `typ`, `crit`, a member that is missing, twice or of a wrong type, or a `jwk` that is no public
    /// P-256 key.
    case malformed
    /// `alg` is not ES256.
    case algorithm
    /// `htm` is another method.
    case method
    /// `htu` is another address.
    case address
    /// `ath` is of another session token.
    case token
    /// The key is not the session's.
    case key
    /// The `jti` was taken before.
    case replayed
    /// The signature is not the key's.
    case signature
    /// The pass is another session's, or not ours.
    case pass
    /// The key has sent more proofs than are kept: 429.
    case limited

    /// The `reason` of `proof_invalid`; nil for what has a code of its own.
    package var reason: String? {
        switch self {
        case .required, .nonce, .limited: nil
        case .malformed: "malformed"
        case .algorithm: "algorithm"
        case .method: "method"
        case .address: "address"
        case .token: "token"
        case .key: "key"
        case .replayed: "replayed"
        case .signature: "signature"
        case .pass: "pass"
        }
    }

    /// The name in metrics: a reason, or a code.
    package var result: String {
        switch self {
        case .required: "proof_required"
        case .nonce: "use_dpop_nonce"
        case .limited: "rate_limited"
        default: reason ?? "malformed"
        }
    }

    /// The `error` of the challenge (RFC 9449 sections 7.1 and 9).
    package var challengeError: String {
        switch self {
        case .nonce: "use_dpop_nonce"
        case .token, .key, .pass: "invalid_token"
        default: "invalid_dpop_proof"
        }
    }
}
