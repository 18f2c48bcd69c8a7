/// Makes DPoP proofs with one key (RFC 9449 section 4.2), each with a `jti` of its own.
package struct ProofMaker: Sendable {
    package let key: ProofKeyPair
    private let signer: any ProofSigner
    private let clock: BrokerClock

    package init(_ key: ProofKeyPair, _ signer: any ProofSigner, _ clock: BrokerClock) {
        self.key = key
        self.signer = signer
        self.clock = clock
    }

    /// The key's thumbprint (RFC 7638), as in `dpop_jkt` and in the `cnf` of tokens.
    package var thumbprint: String { Base64URL.encode(signer.digest(Array(key.publicKey.canonical.utf8)).bytes) }

    /// Writes a proof for one request.
    ///
    /// - Parameters:
    ///   - method: The request's method.
    ///   - address: The request's URL. Its query is left out.
    ///   - nonce: The newest nonce of the request's server, if there is one.
    ///   - token: The access token that is sent along.
    /// - Returns: The value of the field `DPoP`.
    /// - Throws: The vault's failure.
    package func proof(
        method: String, address: String, nonce: String?, token: Secret? = nil
    ) throws(VaultFailure) -> String {
        let identifier = Base64URL.encode(try signer.random(16))
        var claims = JSONWriter(capacity: 384)
        claims.object { claims in
            claims.member("jti", identifier)
            claims.member("htm", method)
            claims.member("htu", String(address.prefix { $0 != "?" && $0 != "#" }))
            claims.member("iat", clock.now().seconds)
            if let nonce { claims.member("nonce", nonce) }
            if let token { claims.member("ath", Base64URL.encode(signer.digest(token.bytes()).bytes)) }
        }
        let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(key.publicKey.canonical)}"#
        let input = Base64URL.encode(header.utf8) + "." + Base64URL.encode(claims.bytes)
        return input + "." + Base64URL.encode(try signer.es256Signature(over: Array(input.utf8), by: key))
    }
}
