package import Broker

/// A signing key of the broker for assertions (`private_key: {file, key_id, algorithm}`).
package struct SigningKey: Sendable {
    /// The PEM text of `private_key.file`.
    package var pem: Secret
    /// `private_key.key_id`: the `kid` of the key at the provider.
    package var keyID: String?
    /// `private_key.algorithm`: RS256, PS256, ES256, ES384 or EdDSA.
    package var algorithm: SignatureAlgorithm
    /// The spelling of the algorithm in the setting; nil if the default algorithm is used.
    package var algorithmName: String?

    package init(
        pem: Secret, keyID: String? = nil, algorithm: SignatureAlgorithm = .es256, algorithmName: String? = nil
    ) {
        self.pem = pem
        self.keyID = keyID
        self.algorithm = algorithm
        self.algorithmName = algorithmName
    }
}
