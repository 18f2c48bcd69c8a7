import Foundation
import Testing

@testable import Coatcheck

@Suite("Proofs")
struct ProofTests {
    private func hexadecimal(_ data: Data) -> String { data.map { String(format: "%02x", $0) }.joined() }

    @Test("SHA-256 of texts of 0 to 199 bytes → the digests of FIPS 180-4")
    func digests() throws {
        let known = [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
            ),
        ]
        for (text, digest) in known { #expect(hexadecimal(SHA256.digest(of: Data(text.utf8))) == digest) }
        // The 200 digests of texts with 0 to 199 letters are joined, and their digest is compared. Python's hashlib made
        // the expected value.
        let all = (0..<200).reduce(Data()) { $0 + SHA256.digest(of: Data(repeating: 0x61, count: $1)) }
        #expect(
            hexadecimal(SHA256.digest(of: all)) == "752c007f38611cfbf5fa42cb1cea3d8e086491c844d0cc4defd632cb81423506")
    }

    @Test("The example key of RFC 9449 → has the thumbprint in the RFC; a malformed key → refused")
    func thumbprint() throws {
        func decoded(_ text: String) throws -> Data {
            let plain = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
            return try #require(Data(base64Encoded: plain + "="))
        }
        let key = try #require(
            ProofPublicKey(
                x: try decoded("l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs"),
                y: try decoded("9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA")))
        #expect(key.thumbprint == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
        #expect(ProofPublicKey(x963: Data([4]) + key.x + key.y) == key)
        #expect(ProofPublicKey(x963: Data([2]) + key.x) == nil && ProofPublicKey(x: key.x, y: Data()) == nil)
    }

    @Test("Answers with nonces → the client keeps the newest nonce, even after an answer without one (W7, W9)")
    func nonces() async throws {
        let url = try #require(URL(string: "https://broker.example.test"))
        let coatcheck = Coatcheck(broker: url, client: "ios", storage: MemoryStorage())
        for (fields, kept) in [
            (["dpop-nonce": "first"], "first"), (["dpop-nonce": "second"], "second"), ([:], "second"),
            (["dpop-nonce": ""], "second"),
        ] {
            await coatcheck.keepNonce(fields)
            #expect(await coatcheck.nonce == kept)
        }
    }

    @Test("A pass in its last minute or last quarter, or after the clock was set back → due for renewal")
    func dueness() {
        let begin = Date(timeIntervalSince1970: 1_000_000)
        func isDue(_ lifetime: Double, after seconds: Double) -> Bool {
            Credentials.Pass(value: "x", received: begin, lifetime: lifetime).isDue(at: begin + seconds)
        }
        #expect(!isDue(600, after: 0) && !isDue(600, after: 539) && isDue(600, after: 541) && isDue(600, after: 86_400))
        #expect(!isDue(60, after: 44) && isDue(60, after: 46) && isDue(60, after: -1))
    }

    @Test(
        "The broker refuses evidence that a repeat can correct → one repeat; it refuses a replayed sign-in → no repeat")
    func mending() throws {
        func problem(_ code: String, _ reason: String? = nil) -> Problem {
            Problem(
                title: "", status: 401, code: ProblemCode(rawValue: code), detail: "", requestID: "", errors: nil,
                reason: reason, retry: nil, providerError: nil, stepUp: nil, parent: nil, required: nil, got: nil,
                login: nil)
        }
        let ask = Call(method: "GET", path: "/v1/session")
        let signIn = Call(method: "POST", path: "/v1/sessions", evidence: .signIn)
        let post = Call(method: "POST", path: "/v1/relay/api/echo", isIdempotent: false)
        let table: [(Call, Problem, Bool)] = [
            (ask, problem("use_dpop_nonce"), true), (signIn, problem("use_dpop_nonce"), true),
            (post, problem("use_dpop_nonce"), true), (ask, problem("proof_required"), true),
            (post, problem("proof_required"), true), (signIn, problem("proof_required"), false),
            (ask, problem("proof_invalid", "pass"), true), (ask, problem("proof_invalid", "replayed"), true),
            (signIn, problem("proof_invalid", "replayed"), false), (post, problem("proof_invalid", "replayed"), false),
            (ask, problem("proof_invalid", "signature"), false), (ask, problem("proof_invalid", "key"), false),
            (ask, problem("session_ended", "admin"), false),
        ]
        for (call, refusal, mends) in table {
            var mending = Mending()
            let first = mending.mends(refusal, of: call)
            let second = mending.mends(refusal, of: call)
            #expect(first == mends && !second, "\(call.path) \(refusal.code) \(refusal.reason ?? "")")
        }
    }
}
