/// Checks a proof, with the cheapest checks first.
///
/// The signature is verified last. Before that, the nonce must be valid, and the proof must match the request's session token
/// and key, if the request has a session.
package struct ProofVerifier: Sendable {
    /// The request, the session token and the key that a proof has to match.
    package struct Demand: Sendable {
        package let target: ProofTarget
        /// The session token that `ath` has to match; nil if the caller gives `tokenDigest` instead, or if `ath` is ignored.
        package let token: Secret?
        /// The digest of the session token that `ath` has to match, for callers that have only this digest.
        package let tokenDigest: Digest?
        /// The thumbprint of the key that has to make the proof, for example the session's key; nil if any key is accepted.
        package let thumbprint: Digest?

        package init(
            _ target: ProofTarget, token: Secret? = nil, tokenDigest: Digest? = nil, thumbprint: Digest? = nil
        ) {
            self.target = target
            self.token = token
            self.tokenDigest = tokenDigest
            self.thumbprint = thumbprint
        }
    }

    /// A proof that has passed all checks except that of its signature.
    package struct Candidate: Sendable {
        package let proof: DPoPProof
        /// The thumbprint of the proof's key (RFC 7638).
        package let thumbprint: Digest
        package let nonce: ProofNonce
        /// The digest of the key's thumbprint and the proof's `jti`, which identifies the proof.
        ///
        /// Used proofs are remembered by this digest.
        package let name: Digest
        /// Whether the request's method is safe, for example `GET` (RFC 9110 section 9.2.1).
        package let isSafe: Bool
    }

    private let vault: any Vault
    private let origins: ProofOrigins
    /// The scope of the nonces that the verifier accepts.
    private let scope: NonceScope

    /// Creates a verifier for proofs whose `htu` names one of `origins`, and whose nonce is of the given scope.
    package init(vault: any Vault, origins: ProofOrigins, scope: NonceScope = "") {
        self.vault = vault
        self.origins = origins
        self.scope = scope
    }

    /// Makes all checks except that of the signature; throws the reason of the first check that fails.
    package func judge(
        _ proof: DPoPProof, _ demand: Demand, taken: TakenProofs, now: WallTime
    ) throws(ProofRefusal) -> Candidate {
        guard proof.method == demand.target.method else { throw .method }
        guard let address = ProofAddress(proof.address), isAbout(address, demand.target) else { throw .address }
        guard let nonce = proof.nonce.flatMap({ ProofNonce($0, at: now, scope: scope, by: vault) }) else {
            throw .nonce
        }
        if let digest = demand.tokenDigest ?? demand.token.map({ vault.digest($0) }) {
            guard let hash = proof.tokenHash.flatMap({ Base64URL.decode($0) }).flatMap(Digest.init), hash == digest
            else { throw .token }
        }
        let thumbprint = vault.digest(Array(proof.key.canonical.utf8))
        if let expected = demand.thumbprint, expected != thumbprint { throw .key }
        // Every thumbprint has 32 bytes, so different pairs of thumbprint and `jti` always give different inputs for the
        // digest.
        let name = vault.digest(thumbprint.bytes + Array(proof.identifier.utf8))
        try taken.look(name, nonce: nonce)
        return Candidate(proof: proof, thumbprint: thumbprint, nonce: nonce, name: name, isSafe: demand.target.isSafe)
    }

    private func isAbout(_ address: ProofAddress, _ target: ProofTarget) -> Bool {
        switch target.address {
        case .own(let path): origins.contains(address) && address.path == ProofAddress.normalizedPath(path.utf8)
        case .foreign(let wanted): address == wanted
        }
    }

    /// Verifies the proof's signature, which takes some tens of microseconds; throws `signature` if it is wrong.
    package func verify(_ candidate: Candidate) throws(ProofRefusal) {
        let proof = candidate.proof
        guard vault.isES256Signature(proof.signature, over: proof.signingInput, by: proof.key) else { throw .signature }
    }
}
