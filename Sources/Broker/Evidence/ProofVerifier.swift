/// Checks proofs, with the cheapest checks first.
///
/// The signature is checked last. Before this, the nonce must be valid. If the request presents a session, the proof must
/// also fit the session's token and key.
package struct ProofVerifier: Sendable {
    /// The values that a proof has to match: the request, the session token and the key.
    package struct Demand: Sendable {
        package let target: ProofTarget
        /// The session token that `ath` has to match; nil if `ath` is ignored, or if `tokenDigest` is given.
        package let token: Secret?
        /// The digest of the session token, for callers that have only the digest.
        package let tokenDigest: Digest?
        /// The thumbprint of the only accepted key, such as the session's key; nil if any key is accepted.
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
        /// The digest of thumbprint and `jti`, which identifies the proof.
        ///
        /// Used proofs are remembered by this digest.
        package let name: Digest
        /// Whether the request's method is safe.
        package let isSafe: Bool
    }

    private let vault: any Vault
    private let origins: ProofOrigins
    /// The scope of the nonces that the verifier accepts.
    private let scope: NonceScope

    /// Creates a verifier for a broker's addresses and for nonces of a scope.
    package init(vault: any Vault, origins: ProofOrigins, scope: NonceScope = "") {
        self.vault = vault
        self.origins = origins
        self.scope = scope
    }

    /// Makes all checks except that of the signature; throws the reason of the first that fails.
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
        // The thumbprint always has 32 bytes, so different pairs of thumbprint and `jti` give different inputs for the
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

    /// Verifies the signature, which costs some tens of microseconds; throws `signature`.
    package func verify(_ candidate: Candidate) throws(ProofRefusal) {
        let proof = candidate.proof
        guard vault.isES256Signature(proof.signature, over: proof.signingInput, by: proof.key) else { throw .signature }
    }
}
