import Broker
import JWTKit

/// Signs short JWTs with one of the broker's keys: client assertions and Apple's client secret.
struct AssertionSigner: Sendable {
    private enum Key: Sendable {
        case rsa(Insecure.RSA.PrivateKey)
        case es256(ES256PrivateKey)
        case es384(ES384PrivateKey)
        case edDSA(EdDSA.PrivateKey)
        case hs256(HMACKey)
    }

    private let key: Key
    private let algorithm: SignatureAlgorithm?
    private let algorithmName: String?
    private let keyID: String?

    /// Reads the key; throws unless the key fits the algorithm.
    init(_ settings: SigningKey) throws {
        let pem = settings.pem.reveal()
        switch settings.algorithm {
        case .rs256, .ps256: key = .rsa(try Insecure.RSA.PrivateKey(pem: pem))
        case .es256: key = .es256(try ES256PrivateKey(pem: pem))
        case .es384: key = .es384(try ES384PrivateKey(pem: pem))
        case .edDSA: key = .edDSA(try EdDSA.PrivateKey(pem: pem))
        case .rs384, .rs512, .ps384, .ps512, .es512:
            throw CatalogueFailure("private_key.algorithm is RS256, PS256, ES256, ES384, EdDSA or Ed25519")
        }
        algorithm = settings.algorithm
        algorithmName = settings.algorithmName
        keyID = settings.keyID
    }

    /// Creates a signer with a shared secret, for HS256.
    init(secret: Secret) {
        key = .hs256(HMACKey(from: secret.bytes()))
        algorithm = nil
        algorithmName = nil
        keyID = nil
    }

    /// The claims of an assertion; times are in seconds since 1970.
    struct Claims: JWTPayload {
        var iss: String
        var sub: String
        var aud: String
        var jti: String?
        var iat: Int64
        var exp: Int64

        func verify(using algorithm: some JWTAlgorithm) async throws {}
    }

    /// Returns the signed text; nil if the library refuses.
    ///
    /// With a `thumbprint`, the header names the certificate instead of the key. `listed` contains the names of the algorithms
    /// in the provider's metadata; nil if the metadata has no such list.
    func sign(_ claims: Claims, type: String?, thumbprint: String? = nil, listed: [String]? = nil) async -> Secret? {
        let collection = JWTKeyCollection()
        switch key {
        case .rsa(let key) where algorithm == .ps256: await collection.add(pss: key, digestAlgorithm: .sha256)
        case .rsa(let key): await collection.add(rsa: key, digestAlgorithm: .sha256)
        case .es256(let key): await collection.add(ecdsa: key)
        case .es384(let key): await collection.add(ecdsa: key)
        case .edDSA(let key): await collection.add(eddsa: key)
        case .hs256(let key): await collection.add(hmac: key, digestAlgorithm: .sha256)
        }
        var header = JWTHeader()
        header.alg = algorithm?.name(listed: listed, configured: algorithmName)
        if let type { header.fields["typ"] = .string(type) }
        if let thumbprint {
            header.fields["x5t#S256"] = .string(thumbprint)
        } else if let keyID {
            header.fields["kid"] = .string(keyID)
        }
        return (try? await collection.sign(claims, header: header)).map(Secret.init)
    }
}
