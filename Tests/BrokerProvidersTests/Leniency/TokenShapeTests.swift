import Broker
import Testing

@testable import BrokerProviders

@Suite("Signed tokens in the form of real servers", .timeLimit(.minutes(2)))
struct TokenShapeTests {
    private static let good =
        #""iss":"https://id.example","sub":"u1","aud":"cid-1","exp":1800000600,"iat":1800000000"#
    private static let now = WallTime(seconds: 1_800_000_000)

    private func check(
        _ claims: String, header: String = #"{"alg":"ES256","kid":"k1","typ":"JWT"}"#,
        nonce: IdentityContext.NonceExpectation = .none, accessToken: String? = nil,
        demands: [(name: String, value: String)] = []
    ) throws {
        let token = try CompactToken(
            try TestKeys.es256("{\(claims)}", header: header), allowed: [.es256], types: ["jwt"], bounds: .answered)
        let rules = IDTokenRules(issuer: "https://id.example", clientID: "cid-1", settings: IDTokenSettings())
        try rules.check(
            token,
            IDTokenRules.Expectation(
                nonce: nonce, accessToken: accessToken.map { Secret($0) }, demands: SignInDemands(demands),
                isFresh: true), now: Self.now)
    }

    private func detail(_ work: () throws -> Void) -> String? {
        do {
            try work()
            return nil
        } catch { return (error as? ProviderFailure)?.detail }
    }

    @Test(
        "A required claim is null → counts as absent, so the token is refused (SEC-28, SEC-29, SEC-30)",
        arguments: [
            #""iss":"https://id.example""#, #""sub":"u1""#, #""aud":"cid-1""#, #""exp":1800000600"#,
            #""iat":1800000000"#,
        ])
    func demanded(_ member: String) {
        let name = member.split(separator: ":").first.map(String.init) ?? ""
        #expect(throws: ProviderFailure.self) { try check(Self.good.replacing(member, with: name + ":null")) }
    }

    @Test("The nonce, azp, auth_time or acr is required at this sign-in, and the claim is null → refused")
    func asked() {
        #expect(throws: ProviderFailure.self) { try check(Self.good + #","nonce":null"#, nonce: .exactly(Secret("n"))) }
        let two = Self.good.replacing(#""aud":"cid-1""#, with: #""aud":["cid-1","cid-1"]"#)
        #expect(throws: ProviderFailure.self) { try check(two + #","azp":null"#) }
        #expect(throws: ProviderFailure.self) {
            try check(Self.good + #","auth_time":null"#, demands: [("max_age", "60")])
        }
        let acr = [(name: "claims", value: #"{"id_token":{"acr":{"essential":true,"values":["a"]}}}"#)]
        #expect(throws: ProviderFailure.self) { try check(Self.good + #","acr":null"#, demands: acr) }
    }

    @Test(
        "An optional claim with a wrong value → the token is refused",
        arguments: [
            #""azp":"other""#, #""azp":"""#, #""azp":false"#, #""at_hash":"AAAA""#, #""at_hash":"""#,
            #""nbf":1900000000"#,
            #""nbf":"""#, #""events":{}"#, #""events":[]"#, #""events":"""#,
        ])
    func wrong(_ member: String) {
        #expect(throws: ProviderFailure.self) { try check(Self.good + "," + member, accessToken: "at-1") }
    }

    @Test(
        "An optional claim that is null → counts as absent",
        arguments: ["azp", "at_hash", "nbf", "events", "nonce", "auth_time", "acr", "amr", "sid", "c_hash", "jti"])
    func nulls(_ name: String) {
        #expect(throws: Never.self) { try check(Self.good + ",\"\(name)\":null", accessToken: "at-1") }
    }

    @Test(
        "A token's header with typ, crit, b64 or cty as null → accepted; with any crit or b64, or another typ → refused"
    )
    func headers() {
        for member in [#""typ":null"#, #""crit":null"#, #""typ":null,"crit":null,"b64":null,"cty":null"#] {
            #expect(throws: Never.self, "\(member)") {
                try check(Self.good, header: #"{"alg":"ES256","kid":"k1",\#(member)}"#)
            }
        }
        for member in [
            #""crit":[]"#, #""crit":["b64"]"#, #""crit":["b64"],"b64":false"#, #""b64":false"#, #""b64":true"#,
            #""typ":"""#, #""typ":7"#, #""typ":"at+jwt""#,
        ] {
            #expect(throws: ProviderFailure.self, "\(member)") {
                try check(Self.good, header: #"{"alg":"ES256","kid":"k1",\#(member)}"#)
            }
        }
        #expect(throws: ProviderFailure.self) { try check(Self.good, header: #"{"alg":null,"kid":"k1"}"#) }
    }

    @Test("A logout token whose events or iat is null, whose event has the wrong form, or with a nonce → refused")
    func logout() throws {
        let rules = LogoutTokenRules(
            issuer: "https://id.example", clients: [(Support.ios, "cid-1")], leeway: .seconds(60))
        let event = #""events":{"http://schemas.openid.net/event/backchannel-logout":{}}"#
        func take(_ claims: String) throws {
            let object = try JSONParser.parseObject(Array("{\(claims)}".utf8), maximumBytes: 4096)
            _ = try rules.check(object, now: Self.now)
        }
        let base = #""iss":"https://id.example","aud":"cid-1","iat":1800000000,"jti":"j1","sub":"u1""#
        for bad in [
            #","events":null"#, "," + event.replacing("{}", with: "null"), "," + event + #","nonce":"n""#,
            "," + event + #","nonce":"""#, "," + event.replacing("{}", with: "[1]"),
            "," + event.replacing("{}", with: "[{}]"), #","events":[]"#,
        ] { #expect(throws: ProviderFailure.self, "\(bad)") { try take(base + bad) } }
        #expect(throws: ProviderFailure.self) { try take(base.replacing("1800000000", with: "null") + "," + event) }
        #expect(throws: Never.self) { try take(base + "," + event + #","nonce":null,"exp":null,"sid":null"#) }
        #expect(throws: Never.self) { try take(base + "," + event.replacing("{}", with: "[]")) }
    }

    @Test(
        "A token in a provider's answer is over 512 KiB, or its header over 16 KiB → refused, and the log names the limit"
    )
    func bounds() throws {
        let claims = Self.good + #","picture":"\#(String(repeating: "A", count: 524_288))""#
        #expect(detail { try check(claims) } == "token is over 524288 bytes")
        let certificates = #""x5c":["\#(String(repeating: "A", count: 16_384))"]"#
        let header = #"{"alg":"ES256","kid":"k1",\#(certificates)}"#
        #expect(detail { try check(Self.good, header: header) } == "token header: over 16384 bytes")
    }

    @Test("A token that any caller may send is over 16 KiB, or its header over 4 KiB → refused (SEC-122)")
    func posted() throws {
        func take(_ claims: String, _ header: String) throws {
            _ = try CompactToken(try TestKeys.es256("{\(claims)}", header: header), allowed: [.es256], types: ["jwt"])
        }
        let plain = #"{"alg":"ES256","kid":"k1"}"#
        let long = Self.good + #","picture":"\#(String(repeating: "A", count: 16_384))""#
        #expect(detail { try take(long, plain) } == "token is over 16384 bytes")
        let header = #"{"alg":"ES256","kid":"k1","x5c":["\#(String(repeating: "A", count: 4096))"]}"#
        #expect(detail { try take(Self.good, header) } == "token header: over 4096 bytes")
    }

    @Test("An id_token with certificates in its header, hundreds of groups, or a picture as a data URI → accepted")
    func large() throws {
        let certificate = String(repeating: "MIIC", count: 450)
        let header = #"{"alg":"ES256","kid":"k1","x5c":["\#(certificate)","\#(certificate)","\#(certificate)"]}"#
        #expect(throws: Never.self) { try check(Self.good, header: header) }
        let groups = (0..<400).map { #""CN=group-\#($0),OU=\#(String(repeating: "x", count: 60)),DC=example""# }
        #expect(throws: Never.self) { try check(Self.good + #","groups":[\#(groups.joined(separator: ","))]"#) }
        let picture = String(repeating: "iVBO", count: 62_000)
        #expect(throws: Never.self) { try check(Self.good + #","picture":"data:image/png;base64,\#(picture)""#) }
    }

    @Test(
        "A token's JSON has a repeated member, is nested too deep or malformed → the log names the member or the byte"
    )
    func words() {
        for (claims, words) in [
            (#","email":"a","email":"a""#, "token claims: the member /email stands twice"),
            (#","x":{"y":1,"y":2}"#, "token claims: the member /x/y stands twice"),
            (#","x":[[[[[[[[1]]]]]]]]"#, "token claims: nested too deep at byte 98"),
        ] {
            let found = detail { try check(Self.good + claims) }
            #expect(found == words, "\(found ?? "taken")")
        }
        #expect(
            detail { try check(Self.good, header: #"{"alg":"ES256","kid":"k1","kid":"k1"}"#) }
                == "token header: the member /kid stands twice")
        #expect(
            detail { try check(Self.good.replacing(#""sub":"u1""#, with: #""sub":u1"#)) }?.hasPrefix(
                "token claims: not JSON at byte") == true)
    }
}

@Suite("Half a surrogate pair in a provider's texts", .timeLimit(.minutes(2)))
struct HalvedTextTests {
    private static let half = #"Ana \ud83d"#

    @Test(
        "Half a surrogate pair in an identifier, the nonce or another protocol claim → the token is refused (SEC-30, SEC-33)"
    )
    func refused() async throws {
        for name in ["sub", "iss", "aud", "nonce", "azp", "at_hash", "sid", "acr", "events", "nbf"] {
            var answers = RawProvider.Answers()
            answers.claims = #""\#(name)":"\#(Self.half)""#
            if ["sub", "iss", "aud"].contains(name) {
                let whole = #""sub":"u1","aud":"cid-1","iss":"https://id.example""#
                let value = ["sub": "u1", "aud": "cid-1", "iss": "https://id.example"][name] ?? ""
                answers.idToken = try TestKeys.es256("{\(whole.replacing(value, with: Self.half))}")
            }
            let provider = try RawProvider(answers)
            guard case .identityRejected(let detail, _) = await Support.failure({ try await provider.signIn() }) else {
                return #expect(Bool(false), "\(name)")
            }
            #expect(detail == "token claims: half a surrogate pair in \(name)")
        }
    }

    @Test(
        "Half a surrogate pair in a token answer's tokens, scope or error → the answer is refused",
        arguments: [
            #""access_token":"a\ud83d""#, #""access_token":"a","refresh_token":"\udc00r""#,
            #""access_token":"a","token_type":"\ud83dBearer""#, #""access_token":"a","scope":"\ud83d x""#,
            #""access_token":"a","scope":["x","\ud83d"]"#, #""access_token":"a","error":"\ud83d""#,
        ])
    func tokens(_ members: String) async throws {
        var answers = RawProvider.Answers()
        answers.token = members
        let provider = try RawProvider(answers)
        guard case .unusable(let detail) = await Support.failure({ try await provider.signIn() }) else {
            return #expect(Bool(false), "\(members)")
        }
        #expect(detail.contains("half a surrogate pair in /"))
    }

    @Test(
        "Half a surrogate pair in a claim with a name → becomes U+FFFD; in any other optional claim → the claim is left out"
    )
    func names() async throws {
        var answers = RawProvider.Answers()
        answers.token += #","user":{"name":"\#(Self.half)"}"#
        answers.claims =
            #""name":"\#(Self.half)","given_name":"\udc00\ud83d\ude00","family_name":"x\ud83d\u0041","picture":"\#(Self.half)","#
            + #""groups":["a\ud83d","b"],"\ud83d":1,"\ud83e":2,"email":"\#(Self.half)""#
        let provider = try RawProvider(answers)
        let settings = provider.settings {
            $0.identity.claims = ["name", "given_name", "family_name", "picture", "groups", "email"].map {
                ($0, "/" + $0)
            }
        }
        let identity = try await provider.signIn(settings).identity
        #expect(identity.subject == "u1")
        #expect(identity.claims.map(\.name) == ["name", "given_name", "family_name"])
        #expect(identity.claims.map(\.value.string) == ["Ana \u{FFFD}", "\u{FFFD}\u{1F600}", "x\u{FFFD}A"])
    }

    @Test("Half a surrogate pair in userinfo's name → becomes U+FFFD; in userinfo's subject → identity_rejected")
    func userinfo() async throws {
        var answers = RawProvider.Answers()
        answers.userinfo = { _ in .json(#"{"sub":"u1","profile":{"shown":"\#(Self.half)","team":"\#(Self.half)"}}"#) }
        let provider = try RawProvider(answers)
        let settings = provider.settings(.oauth2) {
            $0.identity.claims = [("name", "/profile/shown"), ("team", "/profile/team"), ("x", "/profile/shown")]
        }
        let identity = try await provider.signIn(settings).identity
        #expect(identity.claims.map(\.name) == ["name"] && identity.claims.first?.value == .string("Ana \u{FFFD}"))
        answers.userinfo = { _ in .json(#"{"sub":"\#(Self.half)"}"#) }
        let bad = try RawProvider(answers)
        guard case .identityRejected = await Support.failure({ try await bad.signIn(bad.settings(.oauth2)) }) else {
            return #expect(Bool(false))
        }
    }
}
