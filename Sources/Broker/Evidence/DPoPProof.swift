/// A DPoP proof that is parsed but not yet checked (RFC 9449 section 4.2).
package struct DPoPProof: Sendable {
    /// The longest value of the `DPoP` header field that is accepted, in bytes.
    package static let maximumBytes = 4096
    /// The longest `jti` that is accepted, in bytes.
    static let maximumIdentifierBytes = 128

    package let key: ProofKey
    /// The member `htm`, unchanged.
    let method: String
    /// The member `htu`, unchanged.
    let address: String
    /// The member `jti`; it has visible ASCII characters only.
    let identifier: String
    let nonce: String?
    /// The member `ath`, which is the hash of the session token.
    let tokenHash: String?
    /// The bytes that the signature covers.
    let signingInput: [UInt8]
    /// The signature: `r` and `s` of 32 bytes each.
    ///
    /// A malformed signature is kept as it is, and fails the check.
    let signature: [UInt8]

    /// Parses the values of the request's `DPoP` fields; throws `required` if the request has no such field.
    ///
    /// `iat` has to be a number, but its value is ignored, because phones' clocks are often wrong. The nonce shows the age of
    /// the proof instead.
    package init(_ fields: [String]) throws(ProofRefusal) {
        guard let text = fields.first else { throw .required }
        guard fields.count == 1, text.utf8.count <= Self.maximumBytes else { throw .malformed }
        let bytes = Array(text.utf8)
        let segments = bytes.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard segments.count == 3, let headerBytes = Base64URL.decode(segments[0]),
            let claimBytes = Base64URL.decode(segments[1]), let signature = Base64URL.decode(segments[2]),
            let header = try? JSONParser.parseObject(headerBytes, maximumBytes: Self.maximumBytes, maximumDepth: 4),
            let claims = try? JSONParser.parseObject(claimBytes, maximumBytes: Self.maximumBytes, maximumDepth: 4),
            // The member `crit` lists extensions that a verifier must understand (RFC 7515 section 4.1.11). The broker
            // understands none, so it refuses the proof.
            header["typ"]?.string == "dpop+jwt", header["crit"] == nil, let algorithm = header["alg"]?.string
        else { throw .malformed }
        guard algorithm == "ES256" else { throw .algorithm }
        guard let key = header["jwk"]?.object.flatMap(ProofKey.init), let method = claims["htm"]?.string,
            let address = claims["htu"]?.string, let identifier = claims["jti"]?.string, claims["iat"]?.double != nil,
            (1...Self.maximumIdentifierBytes).contains(identifier.utf8.count),
            identifier.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { throw .malformed }
        nonce = try Self.text(claims["nonce"])
        tokenHash = try Self.text(claims["ath"])
        self.key = key
        self.method = method
        self.address = address
        self.identifier = identifier
        self.signature = signature
        signingInput = Array(bytes[..<segments[1].endIndex])
    }

    /// Returns the text of a member of the JWT; nil if the member is missing.
    ///
    /// Throws `malformed` unless the member's value is a text.
    private static func text(_ value: JSONValue?) throws(ProofRefusal) -> String? {
        guard let value else { return nil }
        guard let text = value.string else { throw .malformed }
        return text
    }
}
