import Crypto

/// A key pair for clients of the sandbox to sign assertions; its private half is public.
struct ClientKey: Sendable {
    let key = P256.Signing.PrivateKey()
    let id = "SANDBOX001"

    var pem: String { key.pemRepresentation }

    var publicJWK: JSON {
        SigningKey.es256(key).publicJWK.merging(["kid": .string(id), "alg": "ES256", "use": "sig"])
    }
}
