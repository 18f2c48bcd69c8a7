import Broker
import JWTKit

/// One public key of a provider's set that could verify a signature (RFC 7517).
///
/// What cannot be used is no key.
struct JSONWebKey: Sendable {
    let keyID: String?
    let keyType: String
    let curve: String?
    /// `alg`, when the key is bound to one.
    let algorithm: String?
    /// `issuer`: Microsoft says which tenant's tokens a key may sign.
    let issuer: String?
    private let first: String
    private let second: String

    /// Reads one member of `keys`, or returns nil when it is no usable public signature key.
    init?(_ object: JSONObject) {
        guard let keyType = object["kty"]?.string else { return nil }
        if let use = object["use"] { guard use.string == "sig" else { return nil } }
        if let operations = object["key_ops"] {
            guard operations.array?.contains(.string("verify")) == true else { return nil }
        }
        if let kid = object["kid"] { guard kid.string != nil else { return nil } }
        if let alg = object["alg"] { guard alg.string != nil else { return nil } }
        keyID = object["kid"]?.string
        algorithm = object["alg"]?.string
        issuer = object["issuer"]?.string
        self.keyType = keyType
        switch keyType {
        case "RSA":
            guard let n = object["n"]?.string, let e = object["e"]?.string, Self.isSoundRSA(n, e) else { return nil }
            (curve, first, second) = (nil, n, e)
        case "EC":
            guard let curve = object["crv"]?.string, let x = object["x"]?.string, let y = object["y"]?.string,
                let size = ["P-256": 32, "P-384": 48, "P-521": 66][curve], Base64URL.decode(x)?.count == size,
                Base64URL.decode(y)?.count == size
            else { return nil }
            (self.curve, first, second) = (curve, x, y)
        case "OKP":
            guard let curve = object["crv"]?.string, curve == "Ed25519", let x = object["x"]?.string,
                Base64URL.decode(x)?.count == 32
            else { return nil }
            (self.curve, first, second) = (curve, x, "")
        default: return nil
        }
    }

    /// 2048 to 8192 bits and an odd public exponent of at least 3 (SEC-25): more would cost us, less proves nothing.
    private static func isSoundRSA(_ modulus: String, _ exponent: String) -> Bool {
        guard let n = Base64URL.decode(modulus)?.drop(while: { $0 == 0 }), let top = n.first,
            let e = Base64URL.decode(exponent)?.drop(while: { $0 == 0 }), let last = e.last, e.count <= 4
        else { return false }
        let bits = n.count * 8 - top.leadingZeroBitCount
        return (2048...8192).contains(bits) && last & 1 == 1 && (e.count > 1 || last >= 3)
    }

    /// Returns whether the key may verify this algorithm's signatures.
    func fits(_ algorithm: SignatureAlgorithm) -> Bool {
        keyType == algorithm.keyType && (algorithm.curve == nil || curve == algorithm.curve)
            && (self.algorithm == nil || self.algorithm == algorithm.rawValue)
    }

    /// Makes JWTKit's verifier of exactly this key and algorithm, in a collection of its own; nil when the key is
    /// broken.
    func verifier(for algorithm: SignatureAlgorithm) async -> (any JWTAlgorithm)? {
        let name = JWK.Algorithm(rawValue: algorithm.rawValue)
        let identifier = JWKIdentifier(string: "key")
        let jwk: JWK
        switch keyType {
        case "RSA": jwk = .rsa(name, identifier: identifier, modulus: first, exponent: second)
        case "EC":
            let curve = curve.flatMap(ECDSACurve.init(rawValue:))
            jwk = .ecdsa(name, identifier: identifier, x: first, y: second, curve: curve)
        default: jwk = .octetKeyPair(name, identifier: identifier, x: first, y: nil, curve: .ed25519)
        }
        guard let collection = try? await JWTKeyCollection().add(jwk: jwk),
            let made = try? await collection.getKey(for: identifier), made.name == algorithm.rawValue
        else { return nil }
        return made
    }
}
