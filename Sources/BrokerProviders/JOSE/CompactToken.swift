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
        let bytes = Array(text.utf8)
        let segments = bytes.split(separator: UInt8(ascii: "."), maxSplits: 5, omittingEmptySubsequences: false)
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
        signingInput = Array(bytes[..<segments[1].endIndex])
    }

    /// RFC 7515 section 4.1.9: `application/` may be left off.
    private static func normalized(type: String) -> String {
        let lower = type.lowercased()
        return lower.hasPrefix("application/") ? String(lower.dropFirst("application/".count)) : lower
    }
}

/// An asymmetric JWS algorithm (RFC 7518, RFC 8037).
///
/// `none` and HMAC do not exist here (SEC-25).
package enum SignatureAlgorithm: String, Sendable, CaseIterable {
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case ps384 = "PS384"
    case ps512 = "PS512"
    case es256 = "ES256"
    case es384 = "ES384"
    case es512 = "ES512"
    case edDSA = "EdDSA"

    /// The key type that fits (`kty`).
    var keyType: String {
        switch self {
        case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512: "RSA"
        case .es256, .es384, .es512: "EC"
        case .edDSA: "OKP"
        }
    }

    /// The curve that fits (`crv`), for curve keys.
    var curve: String? {
        switch self {
        case .es256: "P-256"
        case .es384: "P-384"
        case .es512: "P-521"
        case .edDSA: "Ed25519"
        default: nil
        }
    }
}
