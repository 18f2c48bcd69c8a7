/// Judges proofs, in the order of what each check costs: nobody buys a signature check with less than a good nonce, and where a
/// session is presented with less than its token and its key.
package struct ProofVerifier: Sendable {
    /// The request, the session token and the key that a proof has to be of.
    package struct Demand: Sendable {
        package let target: ProofTarget
        /// The session token, where `ath` has to be of one.
        package let token: Secret?
        /// The same, where only its digest is at hand.
        package let tokenDigest: Digest?
        /// The thumbprint of the session's key, where it has one.
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

    /// A proof that is in order but for its signature, which has not been looked at.
    package struct Candidate: Sendable {
        package let proof: DPoPProof
        /// The thumbprint of its key (RFC 7638).
        package let thumbprint: Digest
        package let nonce: ProofNonce
        /// The digest of thumbprint and `jti`, by which it is remembered.
        package let name: Digest
        /// Whether its method changes nothing.
        package let isSafe: Bool
    }

    private let vault: any Vault
    private let origins: ProofOrigins
    /// The scope of the nonces that are taken.
    private let scope: NonceScope

    /// Creates a verifier for the addresses of a broker, and nonces of a scope.
    package init(vault: any Vault, origins: ProofOrigins, scope: NonceScope = "") {
        self.vault = vault
        self.origins = origins
        self.scope = scope
    }

    /// Judges all that is cheap; throws the first reason against it.
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
        // 32 bytes and then the rest: no two pairs make the same text.
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
