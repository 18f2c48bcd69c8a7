import Crypto

/// The key pair with which clients of the sandbox sign their assertions.
///
/// The sandbox publishes its private key.
struct ClientKey: Sendable {
    let key = P256.Signing.PrivateKey()
    let id = "SANDBOX001"

    var pem: String { key.pemRepresentation }

    var publicJWK: JSON {
        SigningKey.es256(key).publicJWK.merging(["kid": .string(id), "alg": "ES256", "use": "sig"])
    }
}
