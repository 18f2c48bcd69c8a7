/// Judges proofs, with the cheapest checks first.
///
/// A signature is checked only after a good nonce. If a session is presented, its token and its key have to fit first, too.
package struct ProofVerifier: Sendable {
    /// The request, the session token and the key that a proof has to match.
    package struct Demand: Sendable {
        package let target: ProofTarget
        /// The session token, if `ath` has to match it.
        package let token: Secret?
        /// The token's digest, if only that is at hand.
        package let tokenDigest: Digest?
        /// The thumbprint of the session's key, if it has one.
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

    /// A proof that is in order except for its signature, which is still unchecked.
    package struct Candidate: Sendable {
        package let proof: DPoPProof
        /// The thumbprint of its key (RFC 7638).
        package let thumbprint: Digest
        package let nonce: ProofNonce
        /// The digest of thumbprint and `jti`.
        ///
        /// The proof is remembered by this name.
        package let name: Digest
        /// Whether the request's method is safe.
        package let isSafe: Bool
    }

    private let vault: any Vault
    private let origins: ProofOrigins
    /// The scope of the nonces that are accepted.
    private let scope: NonceScope

    /// Creates a verifier for a broker's addresses and for nonces of a scope.
    package init(vault: any Vault, origins: ProofOrigins, scope: NonceScope = "") {
        self.vault = vault
        self.origins = origins
        self.scope = scope
    }

    /// Makes all cheap checks; throws the reason of the first that fails.
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
        // The thumbprint always has 32 bytes, so two different pairs never make the same text.
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
