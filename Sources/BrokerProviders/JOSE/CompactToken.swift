import Broker

/// A JWS in compact form, taken apart by our own code before any library sees it (library note 7).
struct CompactToken: Sendable {
    /// The longest token taken, in bytes (SEC-122).
    static let maximumBytes = 16_384

    let header: JSONObject
    let claims: JSONObject
    /// The bytes that the signature is over.
    let signingInput: [UInt8]
    let signature: [UInt8]
    let algorithm: SignatureAlgorithm
    let keyID: String?

    /// Splits a token; throws `identityRejected` for anything but three segments of canonical base64url, JSON objects
    /// without repeated members, and an algorithm from `allowed`.
    init(_ text: String, allowed: [SignatureAlgorithm], types: Set<String>) throws(ProviderFailure) {
        guard text.utf8.count <= Self.maximumBytes, text.isASCII else {
            throw .identityRejected(detail: "token too long, or no ASCII")
        }
        let segments = text.split(separator: ".", maxSplits: 5, omittingEmptySubsequences: false)
        // RFC 7516: five segments are a JWE.
        if segments.count == 5 { throw .identityRejected(detail: "token is encrypted, which is not offered") }
        guard segments.count == 3, let first = segments.first, let last = segments.last,
            let headerBytes = Base64URL.decode(first), let claimBytes = Base64URL.decode(segments[1]),
            let signature = Base64URL.decode(last), !signature.isEmpty
        else { throw .identityRejected(detail: "not a signed compact token") }
        guard let header = try? JSONParser.parseObject(headerBytes, maximumBytes: 4096, maximumDepth: 4),
            let claims = try? JSONParser.parseObject(claimBytes, maximumBytes: Self.maximumBytes, maximumDepth: 8)
        else { throw .identityRejected(detail: "token is not JSON") }
        guard let algorithm = header["alg"]?.string.flatMap(SignatureAlgorithm.init(rawValue:)),
            allowed.contains(algorithm)
        else { throw .identityRejected(detail: "token algorithm not allowed") }
        // We understand no extension, so none may be critical (RFC 7515 section 4.1.11).
        guard header["crit"] == nil else { throw .identityRejected(detail: "token has critical extensions") }
        if let type = header["typ"] {
            guard let text = type.string, text.isASCII, types.contains(Self.normalized(type: text)) else {
                throw .identityRejected(detail: "token of another type")
            }
        }
        if let kid = header["kid"] {
            guard let text = kid.string, text.utf8.count <= 512 else {
                throw .identityRejected(detail: "kid is no text")
            }
            keyID = text
        } else {
            keyID = nil
        }
        self.header = header
        self.claims = claims
        self.algorithm = algorithm
        self.signature = signature
        signingInput = Array((first + "." + segments[1]).utf8)
    }

    /// RFC 7515 section 4.1.9: `application/` may be left off.
    private static func normalized(type: String) -> String {
        let lower = type.lowercased()
        return lower.hasPrefix("application/") ? String(lower.dropFirst("application/".count)) : lower
    }
}
