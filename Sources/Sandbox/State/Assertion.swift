import Crypto
import FoundationEssentials
import JWTKit

/// A received JWT with a verified signature: a client's assertion (RFC 7523), a proof (RFC 9449) or an id_token hint.
struct Assertion {
    let header: JSON
    let claims: JSON

    /// Verifies a token; nil if it is malformed, its algorithm is unknown, or no key fits.
    static func verify(_ token: String, keys: [JSON], secret: String? = nil) async -> Assertion? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let headerBytes = Base64URL.decode(parts[0]),
            let claimBytes = Base64URL.decode(parts[1]), let signature = Base64URL.decode(parts[2]),
            let header = try? JSON.parse(headerBytes), let claims = try? JSON.parse(claimBytes)
        else { return nil }
        let input = Array("\(parts[0]).\(parts[1])".utf8)
        if header["alg"]?.text == "HS256" {
            guard let secret, !secret.isEmpty else { return nil }
            let key = SymmetricKey(data: Array(secret.utf8))
            guard HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: input, using: key) else {
                return nil
            }
            return Assertion(header: header, claims: claims)
        }
        let kid = header["kid"]?.text
        for key in keys where kid == nil || key["kid"] == nil || key["kid"]?.text == kid {
            if await fits(key, algorithm: header["alg"]?.text ?? "", signature: signature, input: input) {
                return Assertion(header: header, claims: claims)
            }
        }
        return nil
    }

    private static func fits(_ key: JSON, algorithm: String, signature: [UInt8], input: [UInt8]) async -> Bool {
        func member(_ name: String) -> [UInt8] { key[name]?.text.flatMap { Base64URL.decode($0) } ?? [] }
        switch algorithm {
        case "ES256":
            guard let point = try? P256.Signing.PublicKey(rawRepresentation: member("x") + member("y")),
                let value = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
            else { return false }
            return point.isValidSignature(value, for: input)
        case "EdDSA", "Ed25519":
            guard let point = try? Curve25519.Signing.PublicKey(rawRepresentation: member("x")) else { return false }
            return point.isValidSignature(signature, for: input)
        case "RS256", "PS256":
            guard let n = key["n"]?.text, let e = key["e"]?.text,
                let rsa = try? Insecure.RSA.PublicKey(modulus: n, exponent: e)
            else { return false }
            let collection = JWTKeyCollection()
            if algorithm == "RS256" {
                await collection.add(rsa: rsa, digestAlgorithm: .sha256)
            } else {
                await collection.add(pss: rsa, digestAlgorithm: .sha256)
            }
            guard let verifier = try? await collection.getKey() else { return false }
            return (try? verifier.verify(signature, signs: input)) ?? false
        default:
            return false
        }
    }
}
