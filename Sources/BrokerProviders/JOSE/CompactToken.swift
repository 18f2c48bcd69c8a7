import Broker

/// A JWS in compact form, parsed by the broker's own code before a library sees it (library note 7).
struct CompactToken: Sendable {
    /// The largest accepted sizes of a token and its header, in bytes; checked before any decoding (SEC-122).
    struct Bounds: Sendable {
        let token: Int
        let header: Int

        /// The bounds for tokens that any stranger may send: logout tokens and the id_tokens of SDKs.
        static let posted = Bounds(token: 16_384, header: 4096)
        /// The bounds for tokens in answers to the broker's own calls.
        ///
        /// Such tokens may contain certificates, hundreds of groups or a picture (decision 80).
        static let answered = Bounds(token: 524_288, header: 16_384)
    }

    /// The claims that the broker's checks read.
    ///
    /// Half a surrogate pair in one of these claims makes the token invalid.
    private static let ofProtocol: Set<String> = [
        "iss", "sub", "aud", "exp", "iat", "nbf", "jti", "nonce", "azp", "at_hash", "c_hash", "s_hash", "acr", "amr",
        "auth_time", "sid", "events", "tid", "cnf",
    ]

    let header: JSONObject
    let claims: JSONObject
    /// The bytes that the signature covers.
    let signingInput: [UInt8]
    let signature: [UInt8]
    let algorithm: SignatureAlgorithm
    let keyID: String?

    /// Splits a token into its parts and parses them.
    ///
    /// Throws `identityRejected` unless all of these conditions hold:
    /// - three segments of canonical base64url
    /// - JSON objects with unique members; a null member counts as absent
    /// - an algorithm from `allowed`
    /// - a size within `bounds`, a `typ` from `types` or none, and no critical extension
    init(
        _ text: String, allowed: [SignatureAlgorithm], types: Set<String>, bounds: Bounds = .posted
    ) throws(ProviderFailure) {
        guard text.utf8.count <= bounds.token else {
            throw .identityRejected(detail: "token is over \(bounds.token) bytes")
        }
        guard text.isASCII else { throw .identityRejected(detail: "token is not ASCII") }
        let bytes = Array(text.utf8)
        let segments = bytes.split(separator: UInt8(ascii: "."), maxSplits: 5, omittingEmptySubsequences: false)
        // Five segments are a JWE (RFC 7516).
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
        // The broker supports no extension, so a critical extension makes the token invalid (RFC 7515 section 4.1.11). `b64`
        // is such an extension (RFC 7797 section 6).
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
            // An empty name counts as absent.
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

    /// Removes an `application/` at the beginning (RFC 7515 section 4.1.9).
    private static func normalized(type: String) -> String {
        let lower = type.lowercased()
        return lower.hasPrefix("application/") ? String(lower.dropFirst("application/".count)) : lower
    }
}
