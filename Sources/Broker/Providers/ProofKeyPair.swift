/// A P-256 key of the broker that a provider binds tokens to; it is always stored sealed.
package struct ProofKeyPair: Sendable {
    package let publicKey: ProofKey
    /// The private scalar, 32 bytes as base64url.
    package let scalar: Secret

    package init(publicKey: ProofKey, scalar: Secret) {
        self.publicKey = publicKey
        self.scalar = scalar
    }
}
