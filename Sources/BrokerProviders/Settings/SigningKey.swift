package import Broker

/// A key of ours that signs assertions (`private_key: {file, key_id, algorithm}`).
package struct SigningKey: Sendable {
    /// The PEM text of `private_key.file`.
    package var pem: Secret
    /// `private_key.key_id`: the `kid` that the provider knows the key by.
    package var keyID: String?
    /// `private_key.algorithm`: RS256, PS256, ES256, ES384 or EdDSA.
    package var algorithm: SignatureAlgorithm

    package init(pem: Secret, keyID: String? = nil, algorithm: SignatureAlgorithm = .es256) {
        self.pem = pem
        self.keyID = keyID
        self.algorithm = algorithm
    }
}
