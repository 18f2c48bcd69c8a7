/// An app's request to import tokens that it has.
package struct ImportRequest: Sendable {
    package var client: ClientName
    package var tokens: ImportedTokens
    /// The idempotency key, which is the same for each retry of this import.
    package var idempotencyKey: String
    /// The maker of proofs for the key that the provider's tokens are to be bound to; nil for unbound tokens.
    package var proof: ProofMaker?
    /// Whether an earlier answer for this key had a nonce.
    package var usesNonces: Bool

    package init(
        client: ClientName, tokens: ImportedTokens, idempotencyKey: String, proof: ProofMaker? = nil,
        usesNonces: Bool = false
    ) {
        self.client = client
        self.tokens = tokens
        self.idempotencyKey = idempotencyKey
        self.proof = proof
        self.usesNonces = usesNonces
    }
}
