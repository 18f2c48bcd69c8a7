import Broker
import Crypto
import Testing

@testable import BrokerProviders

@Suite("Verifying tokens with a provider's key set", .timeLimit(.minutes(2)))
struct KeySetTests {
    private static let claims = #"{"iss":"https://id.example"}"#

    private func set(_ keys: String...) throws -> KeySet {
        let text = #"{"keys":["# + keys.joined(separator: ",") + "]}"
        return try #require(KeySet(try JSONParser.parseObject(Array(text.utf8), maximumBytes: 65_536)))
    }

    private func token(_ header: String = #"{"alg":"ES256","kid":"k1"}"#) throws -> CompactToken {
        try CompactToken(try TestKeys.es256(Self.claims, header: header), allowed: [.es256, .edDSA], types: ["jwt"])
    }

    @Test("Unusable keys in a set → skipped, and the other keys work (library note 7)")
    func strangeKeys() async throws {
        let strange = [
            "7", "null", "[]", "{}", #"{"kty":"oct","k":"AA"}"#, #"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#,
            #"{"kty":"EC","crv":"P-256","kid":"k1","x":"AA","y":"AA"}"#,
            #"{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"k1"}"#,
            #"{"kty":"OKP","crv":"X25519","x":"AA"}"#, #"{"kty":"EC","kid":"k1"}"#, #"{"kty":1}"#, #"{"kid":"k1"}"#,
        ]
        let set = try set((strange + [TestKeys.p256JWK]).joined(separator: ","))
        #expect(set.count == 1)
        let verified = await set.verifies(try token())
        #expect(verified)
    }

    @Test(
        "A key with another use, algorithm, operation, curve or kid than the token needs → never verifies it (SEC-26)")
    func purposes() async throws {
        for change in [
            (#""use":"sig""#, #""use":"enc""#), (#""use":"sig""#, #""alg":"ES384""#),
            (#""use":"sig""#, #""key_ops":["sign"]"#), (#""use":"sig""#, #""key_ops":"verify""#),
            (#""crv":"P-256""#, #""crv":"P-384""#), (#""kid":"k1""#, #""kid":"k2""#), (#""kid":"k1""#, #""kid":1"#),
        ] {
            let set = try set(TestKeys.p256JWK.replacing(change.0, with: change.1))
            let verified = await set.verifies(try token())
            #expect(!verified, "\(change.1)")
        }
        let set = try set(TestKeys.p256JWK.replacing(#""use":"sig""#, with: #""alg":"ES256","key_ops":["verify"]"#))
        let verified = await set.verifies(try token())
        #expect(verified)
    }

    @Test(
        "A token without kid, and exactly one key that fits → accepted; two keys fit, or an unknown kid → refused (SEC-26)"
    )
    func kids() async throws {
        let other = TestKeys.p256JWK.replacing(#""kid":"k1""#, with: #""kid":"k2""#)
        let bare = try token(#"{"alg":"ES256"}"#)
        let one = try set(TestKeys.p256JWK, TestKeys.ed25519JWK)
        let both = try set(TestKeys.p256JWK, other)
        let alone = await one.verifies(bare)
        let ambiguous = await both.verifies(bare)
        let unknown = await one.verifies(try token(#"{"alg":"ES256","kid":"nobody"}"#))
        #expect(alone && !ambiguous && !unknown)
        // The keys in the set have no kid, but the token has one.
        let nameless = TestKeys.p256JWK.replacing(#""kid":"k1","#, with: "").replacing(#","kid":"k1""#, with: "")
        let fits = await (try set(nameless, TestKeys.ed25519JWK)).verifies(try token())
        let second = nameless.replacing(#""kty":"EC""#, with: #""kty":"EC","note":1"#)
        let either = await (try set(nameless, second)).verifies(try token())
        #expect(fits && !either)
    }

    @Test(
        "A forged token names another algorithm for a key → refused, and the key verifies the next token (library note 7)"
    )
    func poisoning() async throws {
        let set = try set(TestKeys.p256JWK.replacing(#","use":"sig""#, with: ""), TestKeys.ed25519JWK)
        let forged = try CompactToken(
            try TestKeys.es256(Self.claims, header: #"{"alg":"ES384","kid":"k1"}"#), allowed: [.es384, .es256],
            types: ["jwt"])
        let first = await set.verifies(forged)
        let second = await set.verifies(try token())
        let third = await set.verifies(
            try CompactToken(try TestKeys.edDSA(Self.claims), allowed: [.edDSA], types: ["jwt"]))
        #expect(!first && second && third)
    }

    @Test("A key's coordinate lacks its leading zeros → padded, so the key verifies (one key in a hundred needs this)")
    func shortCoordinates() async throws {
        var key = P256.Signing.PrivateKey()
        while key.publicKey.rawRepresentation.first != 0 { key = P256.Signing.PrivateKey() }
        let point = Array(key.publicKey.rawRepresentation)
        func jwk(_ x: some Sequence<UInt8>) -> String {
            #"{"kty":"EC","crv":"P-256","kid":"k1","x":"\#(Base64URL.encode(Array(x)))","#
                + #""y":"\#(Base64URL.encode(Array(point[32...])))"}"#
        }
        #expect(try set(jwk(point[..<28])).count == 0)
        #expect(try set(jwk([0] + point[..<32])).count == 0)
        let text = try TestKeys.es256(Self.claims, header: #"{"alg":"ES256","kid":"k1"}"#, key: key)
        let token = try CompactToken(text, allowed: [.es256], types: ["jwt"])
        for x in [Array(point[..<32]), Array(point[..<32].drop { $0 == 0 })] {
            let verified = await (try set(jwk(x))).verifies(token)
            #expect(verified)
        }
    }

    @Test("A token with a changed claim or signature → no key verifies it")
    func tampered() async throws {
        let parts = try TestKeys.es256(Self.claims).split(separator: ".").map(String.init)
        let set = try set(TestKeys.p256JWK)
        for text in [
            [parts[0], Base64URL.encode(Array(#"{"iss":"x"}"#.utf8)), parts[2]], [parts[0], parts[1], "AAAA"],
            [parts[0], parts[1], Base64URL.encode([UInt8](repeating: 0, count: 64))],
            [parts[0], parts[1], Base64URL.encode([UInt8](repeating: 255, count: 64))],
            [parts[0], parts[1], Base64URL.encode([UInt8](repeating: 1, count: 65))],
        ] {
            let token = try CompactToken(text.joined(separator: "."), allowed: [.es256], types: ["jwt"])
            let verified = await set.verifies(token)
            #expect(!verified)
        }
    }

    @Test(
        "RSA keys of less than 2048 or more than 8192 bits, or with exponent 1 or an even exponent → not used (SEC-25)")
    func weakRSA() throws {
        let strong = Base64URL.encode([0x80] + [UInt8](repeating: 1, count: 255))
        let weak = Base64URL.encode([0x80] + [UInt8](repeating: 1, count: 127))
        let padded = Base64URL.encode([UInt8](repeating: 0, count: 128) + [0x80] + [UInt8](repeating: 1, count: 127))
        let giant = Base64URL.encode([0x80] + [UInt8](repeating: 1, count: 2047))
        for (n, e) in [
            (weak, "AQAB"), (padded, "AQAB"), (giant, "AQAB"), (strong, "AQ"), (strong, "BA"), (strong, ""),
            ("", "AQAB"),
            (strong, "AQAAAAAB"), ("!!", "AQAB"),
        ] {
            #expect(try set(#"{"kty":"RSA","n":"\#(n)","e":"\#(e)"}"#).count == 0)
        }
        #expect(try set(#"{"kty":"RSA","n":"\#(strong)","e":"AQAB"}"#).count == 1)
    }

    @Test("A key that Microsoft bound to an issuer template → verifies only tokens whose tid fits their issuer")
    func boundIssuer() async throws {
        let bound = TestKeys.p256JWK.replacing(
            #""use":"sig""#, with: #""issuer":"https://id.example/{tenantid}""#)
        let set = try set(bound)
        func verifies(_ claims: String) async throws -> Bool {
            await set.verifies(try CompactToken(try TestKeys.es256(claims), allowed: [.es256], types: ["jwt"]))
        }
        let own = try await verifies(#"{"iss":"https://id.example/t1","tid":"t1"}"#)
        let foreign = try await verifies(#"{"iss":"https://id.example/t1","tid":"t2"}"#)
        #expect(own && !foreign)
    }

    @Test(
        "JSON without a list of keys → does not count as a key set",
        arguments: ["{}", #"{"keys":{}}"#, #"{"keys":null}"#])
    func noSet(_ text: String) throws {
        #expect(KeySet(try JSONParser.parseObject(Array(text.utf8), maximumBytes: 100)) == nil)
    }
}
