/// Judges proofs, in the order of what each check costs: nobody buys a signature check with less than a good nonce, and where a
/// session is presented with less than its token and its key.
///
/// Everything here is one function of its arguments but for `take`, which remembers the `jti`, last of all.
package struct ProofVerifier<Keys: Vault>: Sendable {
    /// What a proof has to be about.
    package struct Demand: Sendable {
        /// The method, as it came.
        package let method: String
        /// The path as it came, without its query.
        package let path: String
        /// The session token, where `ath` has to be of one.
        package let token: Secret?
        /// The thumbprint of the session's key, where it has one.
        package let thumbprint: Digest?

        package init(method: String, path: String, token: Secret? = nil, thumbprint: Digest? = nil) {
            self.method = method
            self.path = path
            self.token = token
            self.thumbprint = thumbprint
        }
    }

    /// A proof that is in order but for its signature, which has not been looked at.
    package struct Candidate: Sendable {
        package let proof: DPoPProof
        /// The thumbprint of its key (RFC 7638).
        package let thumbprint: Digest
        package let nonce: ProofNonce
        /// What is remembered of it: the digest of thumbprint and `jti`.
        package let name: Digest
    }

    private let vault: Keys
    /// Where the broker can be reached: `public_url` and what stands beside it, normalized (`ProofAddress.origin`).
    private let origins: Set<String>

    /// Creates a verifier for the addresses of a broker.
    package init(vault: Keys, origins: Set<String>) {
        self.vault = vault
        self.origins = origins
    }

    /// Judges all that is cheap; throws the first reason against it.
    package func judge(
        _ proof: DPoPProof, _ demand: Demand, taken: TakenProofs, now: WallTime
    ) throws(ProofRefusal) -> Candidate {
        guard proof.method == demand.method else { throw .method }
        guard let address = ProofAddress(proof.address), origins.contains(address.origin),
            address.path == ProofAddress.normalizedPath(demand.path)
        else { throw .address }
        guard let nonce = proof.nonce.flatMap({ ProofNonce($0, at: now, by: vault) }) else { throw .nonce }
        if let token = demand.token {
            guard let hash = proof.tokenHash.flatMap({ Base64URL.decode($0) }).flatMap(Digest.init),
                hash == vault.digest(token)
            else { throw .token }
        }
        let thumbprint = vault.digest(Array(proof.key.canonical.utf8))
        if let expected = demand.thumbprint, expected != thumbprint { throw .key }
        // 32 bytes and then the rest: no two pairs make the same text.
        let name = vault.digest(thumbprint.bytes + Array(proof.identifier.utf8))
        try taken.look(name, nonce: nonce)
        return Candidate(proof: proof, thumbprint: thumbprint, nonce: nonce, name: name)
    }

    /// Verifies the signature; throws `signature`. It is what costs: some tens of microseconds.
    package func verify(_ candidate: Candidate) throws(ProofRefusal) {
        let proof = candidate.proof
        guard vault.isES256Signature(proof.signature, over: proof.signingInput, by: proof.key) else { throw .signature }
    }
}
