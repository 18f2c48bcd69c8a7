import BrokerTestSupport
import BrokerVault
import Crypto
import Testing

@testable import Broker

/// The checks of DPoP proofs (RFC 9449 section 4.3): refusals before acceptances, cheap checks before expensive ones.
@Suite("Checks of DPoP proofs", .timeLimit(.minutes(2)))
struct ProofVerifierTests {
    private let phone = SigningPhone()
    private let vault: OpenSSLVault
    private let verifier: ProofVerifier
    private let now = WallTime(seconds: 1_800_000_000)
    private let session = Secret("a-session-token")

    init() throws {
        vault = try OpenSSLVault(ring: KeyRing.generate(now: WallTime(seconds: 0), random: SystemRandom.bytes))
        verifier = ProofVerifier(vault: vault, origins: ProofOrigins(publicURL: "https://broker.example.test"))
    }

    private var nonce: String { ProofNonce.text(at: now, by: vault) }

    /// Judges a request with these `DPoP` fields; returns nil if the proof is accepted.
    private func refusal(
        _ fields: [String], thumbprint: String? = nil, taken: TakenProofs = TakenProofs(), later: Duration = .zero
    ) throws -> ProofRefusal? {
        let key = try thumbprint.map { try #require(Base64URL.decode($0).flatMap(Digest.init)) }
        let demand = ProofVerifier.Demand(
            ProofTarget(method: "GET", address: .own(path: "/v1/session")), token: session, thumbprint: key)
        let now = now.advanced(by: later)
        do throws(ProofRefusal) {
            let candidate = try verifier.judge(DPoPProof(fields), demand, taken: taken, now: now)
            try verifier.verify(candidate)
            try taken.take(candidate.name, of: candidate.thumbprint, nonce: candidate.nonce, now: now)
            return nil
        } catch { return error }
    }

    @Test(
        "A request lacks a proof → `required`; two proofs, an empty or too long one, or one with forbidden bytes → `malformed`"
    )
    func fields() throws {
        let good = try phone.proof(nonce: nonce, token: session)
        #expect(try refusal([]) == .required)
        for fields in [[good, good], [good + String(repeating: "a", count: 4096)], [""], ["é" + good], [good + " "]] {
            #expect(try refusal(fields) == .malformed)
        }
    }

    @Test("A proof of 4096 bytes → accepted; a proof of 4097 bytes → malformed")
    func length() throws {
        func sized(_ length: Int) throws -> String {
            // Three bytes become four characters of base64url, so some lengths are possible only with filler in both header and
            // claims.
            for inHeader in 0..<3 {
                for inClaims in stride(from: 2400, to: 2700, by: 1) {
                    let jwk = phone.jwk(#","kid":"\#(String(repeating: "k", count: inHeader))""#)
                    let text = try phone.proof(
                        header: #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(jwk)}"#, nonce: nonce, token: session,
                        more: #","x":"\#(String(repeating: "x", count: inClaims))""#)
                    if text.utf8.count == length { return text }
                }
            }
            throw Unreachable()
        }
        #expect(try refusal([sized(4096)]) == nil)
        #expect(try refusal([sized(4097)]) == .malformed)
    }

    private struct Unreachable: Error {}

    @Test(
        "A coordinate of the proof's key has 31 or 33 bytes instead of 32 → the proof is malformed",
        arguments: [31, 33])
    func coordinates(_ count: Int) throws {
        let (x, y) = phone.coordinates
        let wrong = Base64URL.encode([UInt8](repeating: 1, count: count))
        for (x, y) in [(wrong, y), (x, wrong)] {
            let jwk = #"{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(y)"}"#
            let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(jwk)}"#
            #expect(try refusal([try phone.proof(header: header, nonce: nonce, token: session)]) == .malformed)
        }
    }

    @Test(
        "A proof's header lacks a member that DPoP needs, or has a wrong one → the proof is malformed",
        arguments: [
            #"{"alg":"ES256","jwk":JWK}"#, #"{"typ":"JWT","alg":"ES256","jwk":JWK}"#, #"{"typ":"dpop+jwt","jwk":JWK}"#,
            #"{"typ":"dpop+jwt","alg":7,"jwk":JWK}"#, #"{"typ":"dpop+jwt","alg":"ES256"}"#,
            #"{"typ":"dpop+jwt","alg":"ES256","jwk":"key"}"#,
            #"{"typ":"dpop+jwt","alg":"ES256","jwk":JWK,"crit":["x"]}"#,
            #"{"typ":"dpop+jwt","typ":"dpop+jwt","alg":"ES256","jwk":JWK}"#, #"["dpop+jwt"]"#, "{", "",
            #"{"typ":"dpop+jwt","alg":"ES256","jwk":{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}}"#,
            #"{"typ":"dpop+jwt","alg":"ES256","jwk":{"kty":"RSA","n":"AQAB","e":"AQAB"}}"#,
        ])
    func headers(_ header: String) throws {
        let text = try phone.proof(header: header.replacing("JWK", with: phone.jwk()), nonce: nonce, token: session)
        #expect(try refusal([text]) == .malformed)
    }

    @Test(
        "The key in a proof has a member of a private key → the proof is malformed",
        arguments: ["d", "k", "p", "oth", "priv"])
    func privateMembers(_ name: String) throws {
        let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(phone.jwk(#","\#(name)":"AA""#))}"#
        #expect(try refusal([try phone.proof(header: header, nonce: nonce, token: session)]) == .malformed)
    }

    @Test("The key in a proof has members that describe its use → they are ignored, and the proof is accepted")
    func otherMembers() throws {
        let jwk = phone.jwk(#","alg":"ES256","kid":"1","use":"sig","key_ops":["verify"],"x5c":["AA"]"#)
        let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(jwk)}"#
        #expect(try refusal([try phone.proof(header: header, nonce: nonce, token: session)]) == nil)
    }

    @Test(
        "A proof's header names another algorithm than ES256 → refused with the reason `algorithm`",
        arguments: ["none", "HS256", "RS256", "es256", "EdDSA", "ES384", ""])
    func algorithms(_ name: String) throws {
        let header = #"{"typ":"dpop+jwt","alg":"\#(name)","jwk":\#(phone.jwk())}"#
        #expect(try refusal([try phone.proof(header: header, nonce: nonce, token: session)]) == .algorithm)
    }

    @Test("A claim of a proof is missing, repeated or of another type → the proof is malformed")
    func claims() throws {
        let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(phone.jwk())}"#
        let rest = #""htm":"GET","htu":"\#(SigningPhone.address)","nonce":"\#(nonce)""#
        for claims in [
            #"{"iat":1,\#(rest)}"#, #"{"jti":"a",\#(rest)}"#, #"{"jti":"a","iat":"1",\#(rest)}"#,
            #"{"jti":"a","iat":1e999,\#(rest)}"#, #"{"jti":"","iat":1,\#(rest)}"#, #"{"jti":"a b","iat":1,\#(rest)}"#,
            #"{"jti":"\#(String(repeating: "a", count: 129))","iat":1,\#(rest)}"#, #"{"jti":"é","iat":1,\#(rest)}"#,
            #"{"jti":"a","jti":"a","iat":1,\#(rest)}"#, #"{"jti":"a","iat":1,"ath":1,\#(rest)}"#,
            #"{"jti":"a","iat":1,"htm":"GET","htu":"\#(SigningPhone.address)","nonce":null}"#,
            #"{"jti":"a","iat":1,"htm":7,"htu":"\#(SigningPhone.address)"}"#, #"{"jti":"a","iat":1,"htm":"GET"}"#,
        ] {
            #expect(try refusal([try phone.signed(header, claims)]) == .malformed, "\(claims)")
        }
    }

    @Test("A proof has several faults → the refusal names the fault that is cheapest to check")
    func order() throws {
        let stranger = SigningPhone()
        let elsewhere = "https://elsewhere.test/v1/session"
        let broken = { (text: String) in String(text.dropLast(8)) + "AAAAAAAA" }
        #expect(try refusal([broken(phone.proof(method: "POST", address: elsewhere, nonce: nil))]) == .method)
        #expect(try refusal([broken(phone.proof(address: elsewhere, nonce: nil))]) == .address)
        #expect(try refusal([broken(phone.proof(nonce: nil))], thumbprint: stranger.thumbprint) == .nonce)
        #expect(try refusal([broken(phone.proof(nonce: nonce))], thumbprint: stranger.thumbprint) == .token)
        let other = try phone.proof(nonce: nonce, token: Secret("another"))
        #expect(try refusal([broken(other)], thumbprint: stranger.thumbprint) == .token)
        let good = try phone.proof(nonce: nonce, token: session)
        let taken = TakenProofs()
        #expect(try refusal([good], thumbprint: phone.thumbprint, taken: taken) == nil)
        #expect(try refusal([broken(good)], thumbprint: stranger.thumbprint, taken: taken) == .key)
        #expect(try refusal([broken(good)], thumbprint: phone.thumbprint, taken: taken) == .replayed)
        #expect(try refusal([broken(good)], thumbprint: phone.thumbprint) == .signature)
    }

    @Test(
        "An accepted proof is sent again → refused; a refused proof is not remembered; another key may use this `jti` (W2, W4)"
    )
    func replay() throws {
        let good = try phone.proof(nonce: nonce, token: session)
        let taken = TakenProofs()
        #expect(try refusal([String(good.dropLast(8)) + "AAAAAAAA"], taken: taken) == .signature)
        #expect(taken.count == 0)
        #expect(try refusal([good], taken: taken) == nil)
        #expect(try refusal([good], taken: taken) == .replayed)
        // Another phone may use the same `jti`, because its proof has another key.
        #expect(try refusal([try SigningPhone().proof(nonce: nonce, token: session)], taken: taken) == nil)
        // The broker remembers a used proof until its nonce is too old. After that, the proof is refused because of its nonce.
        #expect(try refusal([good], taken: taken, later: .seconds(599)) == .replayed)
        #expect(try refusal([good], taken: taken, later: .seconds(601)) == .nonce)
    }

    @Test(
        "A signature is by another key, of another length or in DER, or the key's point is off the curve → the proof is refused"
    )
    func signatures() throws {
        let good = try phone.proof(nonce: nonce, token: session)
        let segments = good.split(separator: ".").map(String.init)
        let input = segments[0] + "." + segments[1]
        let foreign = try SigningPhone().key.signature(for: Array(input.utf8))
        let own = try phone.key.signature(for: Array(input.utf8))
        for signature in [
            Array(foreign.rawRepresentation), Array(own.derRepresentation), Array(own.rawRepresentation.dropLast()),
            [], [UInt8](repeating: 0, count: 64), [UInt8](repeating: 255, count: 64),
        ] {
            #expect(try refusal([input + "." + Base64URL.encode(signature)]) == .signature)
        }
        let beside = Base64URL.encode([UInt8](repeating: 1, count: 32))
        let jwk = #"{"kty":"EC","crv":"P-256","x":"\#(beside)","y":"\#(beside)"}"#
        let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(jwk)}"#
        #expect(try refusal([try phone.proof(header: header, nonce: nonce, token: session)]) == .signature)
    }

    @Test("A phone whose clock is wrong by any amount → its proof is accepted (W1)")
    func clocks() throws {
        let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(phone.jwk())}"#
        for (number, time) in ["0", "-5", "1.5", "1e15", "4102444800"].enumerated() {
            let claims = try phone.proof(nonce: nonce, token: session).split(separator: ".")[1]
            let text = String(decoding: try #require(Base64URL.decode(claims)), as: UTF8.self)
            let moved = text.replacing(#""iat":1"#, with: #""iat":\#(time)"#).replacing("id-1", with: "id-\(number)")
            #expect(try refusal([try phone.signed(header, moved)]) == nil)
        }
    }

    @Test("RFC 9449's example proof → its key's thumbprint and its signature are right")
    func vector() throws {
        let text =
            "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg"
        let proof = try DPoPProof([text])
        // The key and its thumbprint are from the examples in RFC 9449 section 6.1.
        #expect(
            Base64URL.encode(vault.digest(Array(proof.key.canonical.utf8)).bytes)
                == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
        #expect(vault.isES256Signature(proof.signature, over: proof.signingInput, by: proof.key))
    }

    @Test("One byte of a proof is changed → refused, without a crash")
    func changed() throws {
        let good = Array(try phone.proof(nonce: nonce, token: session).utf8)
        for index in stride(from: 0, to: good.count, by: 3) {
            var bytes = good
            bytes[index] ^= 1
            #expect(try refusal([String(decoding: bytes, as: UTF8.self)], thumbprint: phone.thumbprint) != nil)
        }
    }
}
