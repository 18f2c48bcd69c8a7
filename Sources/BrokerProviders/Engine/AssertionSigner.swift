import Broker
import JWTKit

/// Signs short JWTs with a key of ours: client assertions and Apple's client secret.
struct AssertionSigner: Sendable {
    private enum Key: Sendable {
        case rsa(Insecure.RSA.PrivateKey)
        case es256(ES256PrivateKey)
        case es384(ES384PrivateKey)
        case edDSA(EdDSA.PrivateKey)
    }

    private let key: Key
    private let settings: SigningKey

    /// Reads the key; throws when it is no key of the algorithm.
    init(_ settings: SigningKey) throws {
        let pem = settings.pem.reveal()
        switch settings.algorithm {
        case .rs256, .ps256: key = .rsa(try Insecure.RSA.PrivateKey(pem: pem))
        case .es256: key = .es256(try ES256PrivateKey(pem: pem))
        case .es384: key = .es384(try ES384PrivateKey(pem: pem))
        case .edDSA: key = .edDSA(try EdDSA.PrivateKey(pem: pem))
        case .rs384, .rs512, .ps384, .ps512, .es512:
            throw CatalogueFailure("private_key.algorithm is RS256, PS256, ES256, ES384 or EdDSA")
        }
        self.settings = settings
    }

    /// An assertion's claims; times in seconds since 1970.
    struct Claims: JWTPayload {
        var iss: String
        var sub: String
        var aud: String
        var jti: String?
        var iat: Int64
        var exp: Int64

        func verify(using algorithm: some JWTAlgorithm) async throws {}
    }

    /// Returns the signed text; nil when the library refuses.
    func sign(_ claims: Claims, type: String?) async -> Secret? {
        let collection = JWTKeyCollection()
        switch key {
        case .rsa(let key) where settings.algorithm == .ps256: await collection.add(pss: key, digestAlgorithm: .sha256)
        case .rsa(let key): await collection.add(rsa: key, digestAlgorithm: .sha256)
        case .es256(let key): await collection.add(ecdsa: key)
        case .es384(let key): await collection.add(ecdsa: key)
        case .edDSA(let key): await collection.add(eddsa: key)
        }
        var header = JWTHeader()
        if let type { header.fields["typ"] = .string(type) }
        if let keyID = settings.keyID { header.fields["kid"] = .string(keyID) }
        return (try? await collection.sign(claims, header: header)).map(Secret.init)
    }
}
