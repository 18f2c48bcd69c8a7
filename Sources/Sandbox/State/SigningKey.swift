import Crypto
import FoundationEssentials
import JWTKit

/// One signing key with its public half as a JWK.
enum SigningKey: Sendable {
    case es256(P256.Signing.PrivateKey)
    case edDSA(Curve25519.Signing.PrivateKey)
    case rsa(RSATestKeys.RSANumbers, any JWTAlgorithm)

    /// Makes a key for `ES256`, `EdDSA`, `RS256` or `PS256`; RSA keys are selected by generation.
    static func make(algorithm: String, generation: Int) async throws -> SigningKey {
        switch algorithm {
        case "RS256", "PS256":
            // The last key (for a negative generation) belongs to no provider, and signs tokens that clients must refuse.
            let numbers = RSATestKeys.all[generation < 0 ? RSATestKeys.all.count - 1 : generation % 2]
            let key = try Insecure.RSA.PrivateKey(
                modulus: numbers.modulus, exponent: "AQAB", privateExponent: numbers.privateExponent,
                prime1: numbers.prime1, prime2: numbers.prime2)
            let collection = JWTKeyCollection()
            if algorithm == "RS256" {
                await collection.add(rsa: key, digestAlgorithm: .sha256)
            } else {
                await collection.add(pss: key, digestAlgorithm: .sha256)
            }
            return .rsa(numbers, try await collection.getKey())
        case "EdDSA":
            return .edDSA(Curve25519.Signing.PrivateKey())
        default:
            return .es256(P256.Signing.PrivateKey())
        }
    }

    /// The public half, except for `kid`, `alg` and `use`.
    var publicJWK: JSON {
        switch self {
        case .es256(let key):
            return key.publicKey.jwk
        case .edDSA(let key):
            return [
                "kty": "OKP", "crv": "Ed25519", "x": .string(Base64URL.encode(key.publicKey.rawRepresentation)),
            ]
        case .rsa(let numbers, _):
            return ["kty": "RSA", "n": .string(numbers.modulus), "e": "AQAB"]
        }
    }

    /// The signature over the input's bytes.
    func sign(_ input: [UInt8]) throws -> [UInt8] {
        switch self {
        case .es256(let key): Array(try key.signature(for: input).rawRepresentation)
        case .edDSA(let key): Array(try key.signature(for: input))
        case .rsa(_, let algorithm): try algorithm.sign(input)
        }
    }
}

extension P256.Signing.PublicKey {
    /// The key as a JWK (RFC 7518 section 6.2.1).
    var jwk: JSON {
        let point = rawRepresentation
        return [
            "kty": "EC", "crv": "P-256", "x": .string(Base64URL.encode(point.prefix(32))),
            "y": .string(Base64URL.encode(point.suffix(32))),
        ]
    }
}
