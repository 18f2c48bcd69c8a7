/// A key that a provider bound tokens to.
package struct TokenKey: Sendable {
    package var pair: ProofKeyPair
    /// Whether the provider's token endpoint has issued nonces.
    ///
    /// If so, a refresh without a nonce may be refused.
    package var usesNonces: Bool

    package init(pair: ProofKeyPair, usesNonces: Bool = false) {
        self.pair = pair
        self.usesNonces = usesNonces
    }
}
