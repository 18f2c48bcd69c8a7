import Broker
import Crypto
import Synchronization
import Testing

@testable import BrokerProviders

@Suite("Key sets in the form of real servers", .timeLimit(.minutes(2)))
struct KeySetLeniencyTests {
    private static let claims = #"{"iss":"https://id.example"}"#

    private func set(_ keys: String...) throws -> KeySet {
        let text = #"{"keys":["# + keys.joined(separator: ",") + "]}"
        return try #require(KeySet(try JSONParser.parseObject(Array(text.utf8), maximumBytes: 65_536)))
    }

    private func token(_ key: P256.Signing.PrivateKey = TestKeys.p256, header: String = #"{"alg":"ES256","kid":"k1"}"#)
        throws -> CompactToken
    {
        try CompactToken(
            try TestKeys.es256(Self.claims, header: header, key: key), allowed: [.es256, .edDSA], types: ["jwt"])
    }

    private func jwk(_ key: P256.Signing.PrivateKey, _ more: String = "") -> String {
        let point = Array(key.publicKey.rawRepresentation)
        return #"{"kty":"EC","crv":"P-256","kid":"k1","x":"\#(Base64URL.encode(point[..<32]))","#
            + #""y":"\#(Base64URL.encode(point[32...]))"\#(more)}"#
    }

    @Test(
        "A key with another use, operation or algorithm, or a malformed member → never verifies a token (SEC-26)",
        arguments: [
            #","use":"enc""#, #","use":"SIG""#, #","use":false"#, #","key_ops":["sign"]"#, #","key_ops":[null]"#,
            #","key_ops":{}"#, #","alg":"ES384""#, #","alg":"HS256""#, #","alg":7"#, #","issuer":7"#,
        ])
    func refused(_ member: String) async throws {
        let verified = await (try set(jwk(TestKeys.p256, member))).verifies(try token())
        #expect(!verified)
    }

    @Test(
        "Optional members of a key are null or empty → they count as absent, so the key verifies a token",
        arguments: [
            #","use":null"#, #","use":"""#, #","key_ops":null"#, #","key_ops":[]"#, #","alg":null"#, #","alg":"""#,
            #","issuer":null"#, #","x5c":null"#, #","use":null,"key_ops":[],"alg":null,"x5c":[],"x5t":null"#,
        ])
    func nulls(_ member: String) async throws {
        let verified = await (try set(jwk(TestKeys.p256, member))).verifies(try token())
        #expect(verified)
        // A key and a token, both with the kid null.
        let nameless = jwk(TestKeys.p256, member).replacing(#""kid":"k1""#, with: #""kid":null"#)
        let fits = await (try set(nameless)).verifies(try token(header: #"{"alg":"ES256","kid":null}"#))
        #expect(fits)
    }

    @Test("Padding with `=` after a key's numbers → removed; after a token's parts → refused")
    func padding() async throws {
        let point = Array(TestKeys.p256.publicKey.rawRepresentation)
        let (x, y) = (Base64URL.encode(point[..<32]), Base64URL.encode(point[32...]))
        let padded = jwk(TestKeys.p256).replacing(x, with: x + "=").replacing(y, with: y + "=")
        let verified = await (try set(padded)).verifies(try token())
        #expect(verified)
        #expect(try set(padded.replacing("=", with: "===")).count == 0)
        #expect(try set(jwk(TestKeys.p256).replacing(x, with: "=" + x)).count == 0)
        let strong = Base64URL.encode([0x80] + [UInt8](repeating: 1, count: 255))
        #expect(try set(#"{"kty":"RSA","n":"\#(strong)==","e":"AQAB"}"#).count == 1)
        let text = try TestKeys.es256(Self.claims, header: #"{"alg":"ES256","kid":"k1"}"#)
        #expect(throws: ProviderFailure.self) { try CompactToken(text + "=", allowed: [.es256], types: ["jwt"]) }
    }

    @Test("Commas in place of the padding of a key's numbers → removed; in another place, or in a token → refused")
    func commas() async throws {
        let point = Array(TestKeys.p256.publicKey.rawRepresentation)
        let (x, y) = (Base64URL.encode(point[..<32]), Base64URL.encode(point[32...]))
        let padded = jwk(TestKeys.p256).replacing(x, with: x + ",").replacing(y, with: y + ",")
        let verified = await (try set(padded)).verifies(try token())
        #expect(verified)
        let strong = Base64URL.encode([0x80] + [UInt8](repeating: 1, count: 255))
        #expect(try set(#"{"kty":"RSA","n":"\#(strong),,","e":"AQAB"}"#).count == 1)
        for odd in ["," + x, x + ",,,", x + ",=", x + "=,", x + ", ", x.prefix(9) + "," + x.dropFirst(9)] {
            #expect(try set(jwk(TestKeys.p256).replacing(x, with: odd)).count == 0, "\(odd)")
        }
        let text = try TestKeys.es256(Self.claims, header: #"{"alg":"ES256","kid":"k1"}"#)
        for odd in [text + ",", text + ",,", text.replacing(".", with: ",.")] {
            #expect(throws: ProviderFailure.self) { try CompactToken(odd, allowed: [.es256], types: ["jwt"]) }
        }
    }

    @Test("A key's numbers in base64 instead of base64url → accepted; a token's parts in base64 → refused")
    func base64() async throws {
        // A key whose numbers differ in base64 and base64url.
        let key = try #require(
            (0..<200).lazy.map { _ in P256.Signing.PrivateKey() }.first { jwk($0).contains("_") })
        let point = Array(key.publicKey.rawRepresentation)
        let (x, y) = (Base64URL.encode(point[..<32]), Base64URL.encode(point[32...]))
        func plain(_ text: String) -> String {
            text.replacing("-", with: "+").replacing("_", with: "/") + "="
        }
        let written = jwk(key).replacing(x, with: plain(x)).replacing(y, with: plain(y))
        let verified = await (try set(written)).verifies(try token(key))
        #expect(verified)
        #expect(try set(written.replacing("/", with: ",")).count == 0)
        let text = try TestKeys.es256(Self.claims, header: #"{"alg":"ES256","kid":"k1"}"#)
        for (sign, other) in [("-", "+"), ("_", "/")] where text.contains(sign) {
            #expect(throws: ProviderFailure.self) {
                try CompactToken(text.replacing(sign, with: other), allowed: [.es256], types: ["jwt"])
            }
        }
    }

    @Test("Entries of a key set with equal members → one key; with a different kid or issuer → two keys (SEC-26)")
    func identical() async throws {
        let bare = try token(header: #"{"alg":"ES256"}"#)
        let key = jwk(TestKeys.p256)
        let reordered = key.replacing(#""kty":"EC","crv":"P-256""#, with: #""crv":"P-256","kty":"EC""#)
        #expect(try set(key, key, reordered, jwk(TestKeys.p256, #","use":null"#)).count == 1)
        let one = await (try set(key, key, reordered)).verifies(bare)
        #expect(one)
        // Microsoft's key sets bind some keys to an issuer.
        let bound = await (try set(key, jwk(TestKeys.p256, #","issuer":"https://id.example""#))).verifies(bare)
        let renamed = await (try set(key, key.replacing("k1", with: "k2"))).verifies(bare)
        #expect(!bound && !renamed)
    }

    @Test("Five keys have the token's kid → the first four are tried; a key with another kid → never tried")
    func candidates() async throws {
        let strangers = (0..<4).map { _ in P256.Signing.PrivateKey() }
        let own = jwk(TestKeys.p256)
        let fourth = await (try set((strangers.prefix(3).map { jwk($0) } + [own]).joined(separator: ",")))
            .verifies(try token())
        let fifth = await (try set((strangers.map { jwk($0) } + [own]).joined(separator: ","))).verifies(try token())
        let other = await (try set(jwk(strangers[0]), own.replacing("k1", with: "k2"))).verifies(try token())
        #expect(fourth && !fifth && !other)
    }

    @Test(
        "Three keys may fit a stranger's token → one charge for each tried key; a charge is refused → the token is refused"
    )
    func charges() async throws {
        let set = try set(jwk(P256.Signing.PrivateKey()), jwk(P256.Signing.PrivateKey()), jwk(TestKeys.p256))
        let charged = Mutex(0)
        let verified = await set.verifies(try token()) {
            charged.withLock { $0 += 1 }
            return true
        }
        #expect(verified && charged.withLock { $0 } == 3)
        let refused = await set.verifies(try token()) { false }
        #expect(!refused)
        // If only one key may fit, the try is not charged. The caller charges a forged token as a wrong token.
        charged.withLock { $0 = 0 }
        let single = await (try self.set(jwk(TestKeys.p256))).verifies(try token()) {
            charged.withLock { $0 += 1 }
            return true
        }
        #expect(single && charged.withLock { $0 } == 0)
    }

    @Test("A token or key names Ed25519 → the same algorithm as EdDSA; names Ed448 or another case → refused")
    func fullyNamed() async throws {
        let header = #"{"alg":"Ed25519","kid":"ed"}"#
        let named = TestKeys.ed25519JWK.replacing(#""kid":"ed""#, with: #""kid":"ed","alg":"Ed25519""#)
        let old = TestKeys.ed25519JWK.replacing(#""kid":"ed""#, with: #""kid":"ed","alg":"EdDSA""#)
        for key in [named, old, TestKeys.ed25519JWK] {
            for header in [header, #"{"alg":"EdDSA","kid":"ed"}"#] {
                let token = try CompactToken(
                    try TestKeys.edDSA(Self.claims, header: header), allowed: [.edDSA], types: ["jwt"])
                let verified = await (try set(key)).verifies(token)
                #expect(verified, "\(header) \(key)")
            }
        }
        #expect(throws: ProviderFailure.self) {
            try CompactToken(try TestKeys.edDSA(Self.claims, header: header), allowed: [.es256], types: ["jwt"])
        }
        for name in ["Ed448", "ed25519", "ED25519", "ESP256"] { #expect(SignatureAlgorithm(name: name) == nil) }
        let bound = await (try set(TestKeys.ed25519JWK.replacing(#""kid""#, with: #""alg":"ES256","kid""#))).verifies(
            try CompactToken(try TestKeys.edDSA(Self.claims, header: header), allowed: [.edDSA], types: ["jwt"]))
        #expect(!bound)
    }
}
