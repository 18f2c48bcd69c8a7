import Crypto
import Testing

@testable import Sandbox

/// The proofs of the playground's phone, and of its thief, who has the token but not the phone's key.
@Suite("The playground's proofs", .timeLimit(.minutes(1)))
struct PlaygroundProofTests {
    private func proof(jar: CookieJar? = nil, nonce: String? = nil) -> PlaygroundProof {
        let request = PlaygroundRequest(method: "POST", to: .broker, target: "/v1/session/pass?a=b", jar: jar)
        return PlaygroundProof(request: request, broker: "http://127.0.0.1:9", issuedAt: 1.9, nonce: nonce)
    }

    private func part(_ index: Int, of proof: String) throws -> JSON {
        let parts = proof.split(separator: ".").map(String.init)
        let part = try #require(parts.count > index ? parts[index] : nil)
        return try JSON.parse(#require(Base64URL.decode(part)))
    }

    @Test(
        "The phone makes a proof → it contains the method, the address without its query, the nonce, and the token's digest"
    )
    func claims() throws {
        let jar = CookieJar()
        jar.take("coatcheck-login=other")
        jar.take("coatcheck=token")
        let text = proof(jar: jar, nonce: "n").signingInput(jwk: ["kty": "EC"])
        let header = try part(0, of: text)
        #expect(header == ["typ": "dpop+jwt", "alg": "ES256", "jwk": ["kty": "EC"]])
        let claims = try part(1, of: text)
        #expect(claims["htm"]?.text == "POST" && claims["htu"]?.text == "http://127.0.0.1:9/v1/session/pass")
        #expect(claims["iat"]?.number == 1 && claims["nonce"]?.text == "n")
        #expect(claims["ath"]?.text == Base64URL.encode(Array(SHA256.hash(data: Array("token".utf8)))))
    }

    @Test("A proof for a request without nonce and token → has neither claim; two proofs → different ids")
    func bare() throws {
        let claims = try [0, 1].map { _ in try part(1, of: proof().signingInput(jwk: .null)) }
        #expect(claims[0]["nonce"] == nil && claims[0]["ath"] == nil)
        #expect(claims[0]["jti"]?.text != claims[1]["jti"]?.text)
    }

    @Test("A thief without the phone's key makes two proofs → each has a valid signature, by a new key")
    func thief() throws {
        var keys: [JSON] = []
        for _ in 0..<2 {
            let proof = try #require(proof(nonce: "n").byAnotherKey())
            let jwk = try #require(part(0, of: proof)["jwk"])
            let point = ["x", "y"].flatMap { jwk[$0]?.text.flatMap { Base64URL.decode($0) } ?? [] }
            let parts = proof.split(separator: ".").map(String.init)
            let raw = try #require(Base64URL.decode(parts[2]))
            let signature = try P256.Signing.ECDSASignature(rawRepresentation: raw)
            let key = try P256.Signing.PublicKey(rawRepresentation: point)
            #expect(key.isValidSignature(signature, for: Array((parts[0] + "." + parts[1]).utf8)))
            keys.append(jwk)
        }
        #expect(keys[0] != keys[1])
    }
}
