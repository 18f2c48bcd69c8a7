import Crypto

/// The key pair that clients of the sandbox may sign assertions with; its private half is handed out.
struct ClientKey: Sendable {
    let key = P256.Signing.PrivateKey()
    let id = "SANDBOX001"

    var pem: String { key.pemRepresentation }

    var publicJWK: JSON {
        SigningKey.es256(key).publicJWK.merging(["kid": .string(id), "alg": "ES256", "use": "sig"])
    }
}
