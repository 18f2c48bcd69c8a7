import Broker
import Crypto
import Testing

@testable import BrokerProviders

@Suite("The claims of an id_token", .timeLimit(.minutes(2)))
struct IDTokenRulesTests {
    private static let now = WallTime(seconds: 1_800_000_000)
    private static let good =
        #""iss":"https://id.example","aud":"cid","sub":"u1","iat":1799999990,"exp":1800003600"#

    private func check(
        _ claims: String, nonce: IdentityContext.NonceExpectation = .none, maximumAge: Int64? = nil,
        demands parameters: [(name: String, value: String)] = [],
        settings: IDTokenSettings = IDTokenSettings()
    ) throws {
        let token = try CompactToken(
            try TestKeys.es256("{\(claims)}"), allowed: [.es256], types: ["jwt"])
        var demands = SignInDemands(parameters)
        if let maximumAge { demands.maximumAge = maximumAge }
        try IDTokenRules(issuer: "https://id.example", clientID: "cid", settings: settings).check(
            token,
            IDTokenRules.Expectation(nonce: nonce, accessToken: nil, demands: demands, isFresh: true),
            now: Self.now)
    }

    private func replacing(_ part: String, _ with: String) -> String { Self.good.replacing(part, with: with) }

    @Test(
        "An id_token's exp, iat or nbf is outside the leeway (at most two minutes) or malformed → refused (SEC-29)"
    )
    func times() throws {
        for exp in [
            "1799999940", "-1", "1e400", "1e300", "9223372036854775808", "\"1800003600\"", "null", "true",
            "[1800003600]", "-1e308",
        ] {
            #expect(throws: ProviderFailure.self, "\(exp)") { try check(replacing("1800003600", exp)) }
        }
        for iat in ["1800000061", "1799996339", "9223372036854775808", "1e308", "null", "\"1\""] {
            #expect(throws: ProviderFailure.self, "\(iat)") { try check(replacing("1799999990", iat)) }
        }
        for exp in ["1799999941", "1800003600.5", "253402300799"] {
            #expect(throws: Never.self, "\(exp)") { try check(replacing("1800003600", exp)) }
        }
        let loose = IDTokenSettings(leeway: .seconds(99_999))
        #expect(throws: ProviderFailure.self) { try check(replacing("1800003600", "1799999879"), settings: loose) }
        #expect(throws: Never.self) { try check(replacing("1800003600", "1799999881"), settings: loose) }
        for nbf in ["1800000061", "\"x\"", "\"\"", "false", "1e308"] {
            #expect(throws: ProviderFailure.self, "\(nbf)") { try check(Self.good + ",\"nbf\":\(nbf)") }
        }
    }

    @Test(
        "An issuer that differs from the expected issuer in one byte → refused (SEC-28)",
        arguments: [
            "https://id.example/", "https://ID.example", "http://id.example", "https://id.example ", "",
            "https://id.example\\u0000",
        ])
    func issuer(_ issuer: String) {
        #expect(throws: ProviderFailure.self) { try check(replacing("https://id.example", issuer)) }
    }

    @Test("An issuer that equals the expected issuer in Unicode, but not in bytes → refused (SEC-28)")
    func normalisation() throws {
        let token = try CompactToken(
            try TestKeys.es256(
                #"{"iss":"https://id.example/e\u0301","aud":"cid","sub":"u","iat":1799999990,"exp":1800003600}"#),
            allowed: [.es256], types: ["jwt"])
        let rules = IDTokenRules(issuer: "https://id.example/\u{E9}", clientID: "cid", settings: IDTokenSettings())
        #expect(throws: ProviderFailure.self) {
            try rules.check(
                token,
                IDTokenRules.Expectation(nonce: .none, accessToken: nil, demands: SignInDemands(), isFresh: true),
                now: Self.now)
        }
    }

    @Test("An aud or azp that equals the client id in Unicode, but not in bytes → refused (SEC-28)")
    func audienceBytes() throws {
        func check(_ claims: String) throws {
            let token = try CompactToken(try TestKeys.es256("{\(claims)}"), allowed: [.es256], types: ["jwt"])
            try IDTokenRules(issuer: "https://id.example", clientID: "cli-\u{E9}", settings: IDTokenSettings()).check(
                token,
                IDTokenRules.Expectation(nonce: .none, accessToken: nil, demands: SignInDemands(), isFresh: true),
                now: Self.now)
        }
        #expect(throws: ProviderFailure.self) { try check(replacing("\"cid\"", "\"cli-e\u{301}\"")) }
        #expect(throws: ProviderFailure.self) {
            try check(replacing("\"cid\"", "\"cli-\u{E9}\"") + ",\"azp\":\"cli-e\u{301}\"")
        }
        #expect(throws: Never.self) { try check(replacing("\"cid\"", "\"cli-\u{E9}\"")) }
    }

    @Test("An id_token's exp is after the year 9999 → refused")
    func endOfCalendars() {
        for expiry in ["253402300800", "1e15", "9223372036854775807", "1e300"] {
            #expect(throws: ProviderFailure.self, "\(expiry)") { try check(replacing("1800003600", expiry)) }
        }
        #expect(throws: Never.self) { try check(replacing("1800003600", "253402300799")) }
    }

    @Test("The sign-in asked for acr_values or essential claims, and the id_token lacks one → refused")
    func demands() {
        let classes = [("acr_values", "urn:mfa urn:hwk")]
        #expect(throws: ProviderFailure.self) { try check(Self.good, demands: classes) }
        #expect(throws: ProviderFailure.self) { try check(Self.good + #","acr":"urn:pwd""#, demands: classes) }
        #expect(throws: ProviderFailure.self) { try check(Self.good + #","acr":["urn:mfa"]"#, demands: classes) }
        #expect(throws: Never.self) { try check(Self.good + #","acr":"urn:hwk""#, demands: classes) }
        let claims = [
            (
                "claims",
                #"{"id_token":{"acr":{"essential":true,"values":["a","b"]},"email":{"essential":true},"x":null}}"#
            )
        ]
        for missing in [#","acr":"a""#, #","email":"e""#, #","acr":"c","email":"e""#, #","acr":"a","email":null"#] {
            #expect(throws: ProviderFailure.self, "\(missing)") { try check(Self.good + missing, demands: claims) }
        }
        #expect(throws: Never.self) { try check(Self.good + #","acr":"b","email":"e""#, demands: claims) }
    }

    @Test("The sign-in sent no nonce: an id_token with a nonce → refused; without a nonce → accepted")
    func strayNonce() {
        #expect(throws: ProviderFailure.self) { try check(Self.good + #","nonce":"n""#, nonce: .absent) }
        #expect(throws: ProviderFailure.self) { try check(Self.good + #","nonce":"""#, nonce: .absent) }
        #expect(throws: Never.self) { try check(Self.good, nonce: .absent) }
    }

    @Test(
        "A refreshed id_token with another issuer, client or nonce than the first → a fault; without a nonce → accepted"
    )
    func refreshed() throws {
        let rules = IDTokenRules(
            issuer: "https://id.example", clientID: "cid",
            settings: IDTokenSettings(trustedAudiences: ["other"]))
        let before = Secret(try TestKeys.es256("{\(Self.good),\"nonce\":\"n1\"}"))
        func fault(_ claims: String) throws -> String? {
            rules.faultOfRefreshed(
                try CompactToken(try TestKeys.es256("{\(claims)}"), allowed: [.es256], types: ["jwt"]), before: before)
        }
        for foreign in [
            replacing("https://id.example", "https://evil.example"), replacing("\"cid\"", "\"other\""),
            replacing("\"cid\"", "[]"), Self.good + #","nonce":"n2""#, Self.good + #","nonce":7"#,
        ] { #expect(try fault(foreign) != nil, "\(foreign)") }
        for own in [
            Self.good, Self.good + #","nonce":"n1""#, replacing("\"cid\"", #"["cid","other"]"#) + #","azp":"cid""#,
        ] { #expect(try fault(own) == nil, "\(own)") }
    }

    @Test(
        "An id_token whose aud lacks the client or has an untrusted audience, or with another client as azp → refused (SEC-28)"
    )
    func audiences() {
        for aud in [#""other""#, "[]", #"["cid","other"]"#, #"["cid",7]"#, "7", "null", "{}"] {
            #expect(throws: ProviderFailure.self, "\(aud)") { try check(replacing(#""cid""#, aud)) }
        }
        #expect(throws: Never.self) { try check(replacing(#""cid""#, #"["cid"]"#)) }
        let trusting = IDTokenSettings(trustedAudiences: ["api"])
        let both = replacing(#""cid""#, #"["cid","api"]"#)
        #expect(throws: ProviderFailure.self) { try check(both, settings: trusting) }
        #expect(throws: Never.self) { try check(both + #","azp":"cid""#, settings: trusting) }
        #expect(throws: ProviderFailure.self) { try check(both + #","azp":"else""#, settings: trusting) }
        #expect(throws: ProviderFailure.self) { try check(both + #","azp":null"#, settings: trusting) }
    }

    @Test(
        "The id_token lacks the requested nonce → refused; a native SDK's id_token has it raw or hashed → accepted (SEC-30)"
    )
    func nonces() {
        let nonce = Secret("n-1234")
        let hash = Array(SHA256.hash(data: Array("n-1234".utf8)))
        let hexadecimal = hash.map { byte in
            let text = String(byte, radix: 16)
            return text.count == 1 ? "0" + text : text
        }.joined()
        for claim in [
            "", #","nonce":"""#, #","nonce":null"#, #","nonce":7"#, #","nonce":"N-1234""#, #","nonce":["n-1234"]"#,
        ] {
            #expect(throws: ProviderFailure.self) { try check(Self.good + claim, nonce: .exactly(nonce)) }
            #expect(throws: ProviderFailure.self) { try check(Self.good + claim, nonce: .rawOrSHA256(nonce)) }
        }
        for text in [hexadecimal, Base64URL.encode(hash)] {
            let claims = Self.good + #","nonce":"\#(text)""#
            #expect(throws: ProviderFailure.self) { try check(claims, nonce: .exactly(nonce)) }
            #expect(throws: Never.self) { try check(claims, nonce: .rawOrSHA256(nonce)) }
        }
        #expect(throws: Never.self) { try check(Self.good + #","nonce":"n-1234""#, nonce: .exactly(nonce)) }
        #expect(throws: Never.self) { try check(Self.good + #","nonce":"n-1234""#, nonce: .rawOrSHA256(nonce)) }
    }

    @Test("max_age was requested, and auth_time is older, in the future or missing → refused (SEC-30)")
    func maximumAge() {
        #expect(throws: ProviderFailure.self) { try check(Self.good, maximumAge: 300) }
        #expect(throws: ProviderFailure.self) { try check(Self.good + ",\"auth_time\":1799999000", maximumAge: 300) }
        #expect(throws: ProviderFailure.self) { try check(Self.good + ",\"auth_time\":1800009000", maximumAge: 300) }
        #expect(throws: Never.self) { try check(Self.good + ",\"auth_time\":1799999900", maximumAge: 300) }
    }

    @Test(
        "A sub that is empty, over 255 bytes, not a text, or has a control character → refused",
        arguments: [
            "\"\"", "7", "null", "\"a\\nb\"", "\"\(String(repeating: "s", count: 256))\"",
        ])
    func subjects(_ subject: String) {
        #expect(throws: ProviderFailure.self) { try check(replacing(#""u1""#, subject)) }
    }

    @Test(
        "A token with the typ of another kind of token → refused as an id_token (SEC-31)",
        arguments: ["at+jwt", "logout+jwt", "application/at+jwt", "", "dpop+jwt"])
    func types(_ type: String) throws {
        let token = try TestKeys.es256("{\(Self.good)}", header: #"{"alg":"ES256","kid":"k1","typ":"\#(type)"}"#)
        #expect(throws: ProviderFailure.self) { try CompactToken(token, allowed: [.es256], types: ["jwt"]) }
    }

    @Test("An encrypted id_token → refused, and the log names the encryption")
    func encrypted() {
        for (token, detail) in [
            ("e30.AA.AA.AA.AA", "token is encrypted, which is not offered"),
            ("e30..AA.AA.AA", "token is encrypted, which is not offered"),
            ("e30.AA.AA.AA", "not a signed compact token"), ("e30.AA.AA.AA.AA.AA", "not a signed compact token"),
        ] {
            do {
                _ = try CompactToken(token, allowed: SignatureAlgorithm.allCases, types: ["jwt"])
                Issue.record("\(token) was accepted")
            } catch { #expect(error.detail == detail) }
        }
    }

    @Test("Text that is not a compact token → refused before decoding (SEC-122)")
    func shapes() throws {
        let good = try TestKeys.es256("{\(Self.good)}")
        let parts = good.split(separator: ".").map(String.init)
        let bad = [
            "", ".", "..", "a.b.c", good + ".x", parts[0] + "." + parts[1], parts[0] + "." + parts[1] + ".",
            parts[0] + "=." + parts[1] + "." + parts[2], parts[0] + "." + parts[1] + "\n." + parts[2], "e30.e30.AA",
            good + String(repeating: "A", count: 16_384), parts.joined(separator: ".") + "=",
            String(repeating: ".", count: 1000),
        ]
        for token in bad {
            #expect(throws: ProviderFailure.self, "\(token.prefix(40))") {
                try CompactToken(token, allowed: SignatureAlgorithm.allCases, types: ["jwt"])
            }
        }
        for header in [
            #"{"alg":"none"}"#, #"{"alg":"HS256"}"#, #"{"alg":"es256"}"#, #"{"kid":"k1"}"#, #"{"alg":["ES256"]}"#,
            #"{"alg":"ES256","alg":"ES256"}"#, #"{"alg":"ES256","kid":7}"#, #"{"alg":"ES256","crit":[]}"#,
            #"{"alg":"ES256","a":{"b":{"c":{"d":{}}}}}"#, #"["ES256"]"#,
        ] {
            #expect(throws: ProviderFailure.self, "\(header)") {
                try CompactToken(
                    try TestKeys.es256("{\(Self.good)}", header: header), allowed: SignatureAlgorithm.allCases,
                    types: ["jwt"])
            }
        }
    }
}
