import Crypto

/// The part of a request's proof (RFC 9449 section 4.2) that is signed: the header and the claims.
struct PlaygroundProof: Sendable {
    let request: PlaygroundRequest
    /// The broker's address for apps.
    let broker: String
    let issuedAt: Double
    /// The last nonce from the broker; nil before the first.
    let nonce: String?

    /// The signing input, with header and claims.
    func signingInput(jwk: JSON) -> String {
        let header: JSON = ["typ": "dpop+jwt", "alg": "ES256", "jwk": jwk]
        var claims: JSON = [
            "jti": .string(Random.token()), "htm": .string(request.method),
            "htu": .string(broker + request.target.prefix { $0 != "?" }), "iat": .int(Int(issuedAt)),
        ]
        if let nonce { claims["nonce"] = .string(nonce) }
        if let token = request.jar?.session { claims["ath"] = .string(Digest256.base64url(token.value)) }
        return JWTWriter.segment(header) + "." + JWTWriter.segment(claims)
    }

    /// Returns the same proof made with another key, for a thief.
    func byAnotherKey() -> String? {
        let key = P256.Signing.PrivateKey()
        let text = signingInput(jwk: key.publicKey.jwk)
        guard let signature = try? key.signature(for: Array(text.utf8)) else { return nil }
        return text + "." + Base64URL.encode(Array(signature.rawRepresentation))
    }
}
