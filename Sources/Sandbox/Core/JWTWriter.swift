import Crypto

/// Writes JWTs exactly as requested, even invalid ones.
enum JWTWriter {
    static func sign(_ claims: JSON, header: JSON, with key: KeyRings.Entry) throws -> String {
        var full: JSON = ["alg": .string(key.algorithm)]
        full["kid"] = .string(key.id)
        return try compact(full.merging(header), claims) { try key.key.sign($0) }
    }

    static func unsigned(_ claims: JSON) -> String {
        segment(["alg": "none", "typ": "JWT"]) + "." + segment(claims) + "."
    }

    static func hs256(_ claims: JSON, header: JSON, secret: [UInt8]) throws -> String {
        try compact(["alg": "HS256", "typ": "JWT"] as JSON, claims, more: header) {
            Array(HMAC<SHA256>.authenticationCode(for: $0, using: SymmetricKey(data: secret)))
        }
    }

    private static func compact(
        _ header: JSON, _ claims: JSON, more: JSON = [:], signature: ([UInt8]) throws -> [UInt8]
    ) throws -> String {
        let input = segment(header.merging(more)) + "." + segment(claims)
        return input + "." + Base64URL.encode(try signature(Array(input.utf8)))
    }

    static func segment(_ json: JSON) -> String { Base64URL.encode(Array(json.serialized.utf8)) }
}
