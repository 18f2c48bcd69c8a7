import Broker

/// A JWS in compact form, taken apart by our own code before any library sees it (library note 7).
struct CompactToken: Sendable {
    /// The largest token and header that are taken, in bytes, looked at before anything is decoded (SEC-122).
    struct Bounds: Sendable {
        let token: Int
        let header: Int

        /// Of tokens that anybody may send: logout tokens and the id_tokens of SDKs.
        static let posted = Bounds(token: 16_384, header: 4096)
        /// Of tokens in the answers to our own calls: headers with certificates, hundreds of groups, a picture (decision 80).
        static let answered = Bounds(token: 524_288, header: 16_384)
    }

    /// The claims that the protocol reads: half a surrogate pair in one of them refuses the token.
    private static let ofProtocol: Set<String> = [
        "iss", "sub", "aud", "exp", "iat", "nbf", "jti", "nonce", "azp", "at_hash", "c_hash", "s_hash", "acr", "amr",
        "auth_time", "sid", "events", "tid", "cnf",
    ]

    let header: JSONObject
    let claims: JSONObject
    /// The bytes that the signature is over.
    let signingInput: [UInt8]
    let signature: [UInt8]
    let algorithm: SignatureAlgorithm
    let keyID: String?

    /// Splits a token; throws `identityRejected` for anything but three segments of canonical base64url, JSON objects
    /// without repeated members, and an algorithm from `allowed`.
    ///
    /// A member that is null is absent.
    init(
        _ text: String, allowed: [SignatureAlgorithm], types: Set<String>, bounds: Bounds = .posted
    ) throws(ProviderFailure) {
        guard text.utf8.count <= bounds.token else {
            throw .identityRejected(detail: "token is over \(bounds.token) bytes")
        }
        guard text.isASCII else { throw .identityRejected(detail: "token is not ASCII") }
        let bytes = Array(text.utf8)
        let segments = bytes.split(separator: UInt8(ascii: "."), maxSplits: 5, omittingEmptySubsequences: false)
        // RFC 7516: five segments are a JWE.
        if segments.count == 5 { throw .identityRejected(detail: "token is encrypted, which is not offered") }
        guard segments.count == 3, let first = segments.first, let last = segments.last,
            let headerBytes = Base64URL.decode(first), let claimBytes = Base64URL.decode(segments[1]),
            let signature = Base64URL.decode(last), !signature.isEmpty
        else { throw .identityRejected(detail: "not a signed compact token") }
        let header: JSONObject
        do throws(JSONFailure) {
            header = try JSONParser.parseObject(headerBytes, maximumBytes: bounds.header, maximumDepth: 4)
        } catch { throw .identityRejected(detail: "token header: \(error.words)") }
        let claims: JSONObject
        do throws(JSONFailure) {
            claims = try JSONParser.parseObject(
                claimBytes, maximumBytes: bounds.token, maximumDepth: 8, mendingTexts: true)
        } catch { throw .identityRejected(detail: "token claims: \(error.words)") }
        try Self.checkTexts(claims)
        guard let name = header["alg"]?.string, let algorithm = SignatureAlgorithm(name: name),
            allowed.contains(algorithm)
        else { throw .identityRejected(detail: "token algorithm not allowed") }
        // We understand no extension, so none may be critical (RFC 7515 section 4.1.11); `b64` is one (RFC 7797 section 6).
        guard header.present("crit") == nil else { throw .identityRejected(detail: "token has critical extensions") }
        guard header.present("b64") == nil else { throw .identityRejected(detail: "token has b64 without crit") }
        if let type = header.present("typ") {
            guard let text = type.string, text.isASCII, types.contains(Self.normalized(type: text)) else {
                throw .identityRejected(detail: "token of another type")
            }
        }
        if let kid = header.present("kid") {
            guard let text = kid.string, text.utf8.count <= 512 else {
                throw .identityRejected(detail: "kid is no text, or over 512 bytes")
            }
            // An empty name is none.
            keyID = text.isEmpty ? nil : text
        } else {
            keyID = nil
        }
        self.header = header
        self.claims = claims
        self.algorithm = algorithm
        self.signature = signature
        signingInput = Array(bytes[..<segments[1].endIndex])
    }

    private static func checkTexts(_ claims: JSONObject) throws(ProviderFailure) {
        for place in claims.halvedTexts.keys {
            let name = place.split(separator: "/").first.map(String.init) ?? ""
            guard !ofProtocol.contains(name) else {
                throw .identityRejected(detail: "token claims: half a surrogate pair in \(name)")
            }
        }
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

    /// Returns the algorithm of a name; RFC 9864 calls EdDSA with an Ed25519 key `Ed25519`, and no other key of EdDSA is taken.
    package init?(name: String) {
        self.init(rawValue: name == Self.fullyNamedEdDSA ? Self.edDSA.rawValue : name)
    }

    /// The second name of EdDSA with an Ed25519 key (RFC 9864 section 2.2).
    package static let fullyNamedEdDSA = "Ed25519"

    /// Returns whether a list of names, as a provider's metadata have it, has the algorithm by one of its names.
    package func isListed(in names: [String]) -> Bool { names.contains { SignatureAlgorithm(name: $0) == self } }

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
