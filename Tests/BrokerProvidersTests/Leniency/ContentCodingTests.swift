import Broker
import Testing

@testable import BrokerProviders

@Suite("Content codings of answers", .timeLimit(.minutes(2)))
struct ContentCodingTests {
    private static let text = #"{"access_token":"at-1","token_type":"Bearer"}"#
    /// `text` as gzip data, as zlib data and as bare deflate data.
    private static let gzip =
        Base64URL.decode(
            "H4sIAAAAAAACA6tWSkxOTi0uji_Jz07NU7JSSizRNVTSUQJz40sqC1KBYk6piUWpRUq1AIvRn10tAAAA") ?? []
    private static let zlib = Base64URL.decode("eNqrVkpMTk4tLo4vyc9OzVOyUkos0TVU0lECc-NLKgtSgWJOqYlFqUVKtQBl6Q9h") ?? []
    private static let raw = Array(zlib.dropFirst(2).dropLast(4))

    private func decode(_ body: [UInt8], _ fields: String..., maximum: Int = 1 << 20) throws -> String {
        String(decoding: try ContentCoding.decode(body, fields, maximumBytes: maximum), as: UTF8.self)
    }

    @Test(
        "Truncated or damaged data, data in another coding than declared, or with further bytes after it → refused (SEC-122)"
    )
    func refused() {
        let cut = Array(Self.gzip.dropLast(1))
        var damaged = Self.gzip
        damaged[damaged.count - 6] ^= 1
        for (body, coding) in [
            (Array(Self.text.utf8), "gzip"), (Self.zlib, "gzip"), (Self.raw, "gzip"), (Self.gzip, "deflate"),
            (cut, "gzip"), (damaged, "gzip"), (Self.gzip + [0], "gzip"), (Self.gzip + Array("x".utf8), "gzip"),
            (Self.gzip + cut, "gzip"), (Self.zlib + Self.zlib, "deflate"), (Self.zlib + [0], "deflate"),
            (Self.raw + [0], "deflate"), (Array(Self.raw.dropLast(1)), "deflate"), (Self.gzip, "br"), ([0], "deflate"),
            (Self.gzip, "gzip, gzip"), (Self.gzip, "compress"), (Self.gzip, "gzip-x"),
        ] {
            #expect(throws: ContentCoding.Failure.undecodable, "\(coding) \(body.count)") { try decode(body, coding) }
        }
    }

    @Test("Seventeen gzip members, or more bytes in all members than the size limit → refused (SEC-122)")
    func bounds() throws {
        let sixteen = [[UInt8]](repeating: Self.gzip, count: 16).flatMap(\.self)
        #expect(try decode(sixteen, "gzip").utf8.count == 16 * Self.text.utf8.count)
        #expect(throws: ContentCoding.Failure.undecodable) { try decode(sixteen + Self.gzip, "gzip") }
        #expect(throws: ContentCoding.Failure.tooLarge) {
            try decode(sixteen, "gzip", maximum: 16 * Self.text.utf8.count - 1)
        }
        #expect(throws: ContentCoding.Failure.tooLarge) {
            try decode(Self.zlib, "deflate", maximum: Self.text.utf8.count - 1)
        }
        #expect(throws: ContentCoding.Failure.tooLarge) {
            try decode(Self.raw, "deflate", maximum: Self.text.utf8.count - 1)
        }
    }

    @Test("gzip, x-gzip, several members, zlib or bare deflate data → decoded; empty data → empty")
    func accepted() throws {
        for (body, coding) in [
            (Self.gzip, "gzip"), (Self.gzip, "x-gzip"), (Self.gzip, "GZIP"), (Self.gzip, " gzip "),
            (Self.gzip, "identity, gzip"), (Self.zlib, "deflate"), (Self.raw, "deflate"),
            (Array(Self.text.utf8), "identity"), (Array(Self.text.utf8), ""),
        ] { #expect(try decode(body, coding) == Self.text, "\(coding)") }
        #expect(try decode(Self.gzip + Self.gzip, "gzip") == Self.text + Self.text)
        for coding in ["gzip", "x-gzip", "deflate", "br", "gzip, gzip"] { #expect(try decode([], coding) == "") }
    }

    @Test(
        "A token answer in gzip, x-gzip or deflate → the sign-in has its tokens; in another coding than declared → has none",
        arguments: [("x-gzip", gzip, true), ("gzip", gzip, true), ("deflate", raw, true), ("gzip", raw, false)])
    func redeemed(_ coding: String, _ body: [UInt8], _ isGood: Bool) async throws {
        let server = try RawServer { _ in
            .http(200, [("Content-Type", "application/json"), ("Content-Encoding", coding)], body)
        }
        try await Support.with(settings(server.base)) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            let tokens = try? await exchanger.redeem(Support.grant(), by: Support.deadline)
            #expect((tokens?.accessToken.reveal() == "at-1") == isGood)
            #expect(server.received.count == 1)
        }
    }

    @Test(
        "A revocation is answered with 200, a Content-Encoding and an empty body → the revocation counts as done",
        arguments: ["gzip", "deflate", "x-gzip"])
    func revoked(_ coding: String) async throws {
        let server = try RawServer { _ in .http(200, [("Content-Encoding", coding)], []) }
        try await Support.with(settings(server.base)) { client in
            let revoker = try #require(client as? any TokenRevoking)
            try await revoker.revoke(TokenSet(accessToken: Secret("at-1")), client: Support.ios, by: Support.deadline)
            #expect(server.received.count == 1)
        }
    }

    private func settings(_ base: String) -> ProviderSettings {
        ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2,
            endpoints: EndpointSettings(
                authorization: EndpointURL(base + "/a"), token: EndpointURL(base + "/t"),
                userinfo: EndpointURL(base + "/u"), revocation: base + "/r"),
            clients: [ClientSettings(profile: Support.profile(nonce: false), clientID: "cid-1")])
    }

    @Test("One byte order mark before JSON or a form → ignored; two marks, or a mark in another place → refused")
    func marks() async throws {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        for (body, type, isGood) in [
            (mark + Array(Self.text.utf8), "application/json", true),
            (mark + Array("access_token=at-1".utf8), "application/x-www-form-urlencoded", true),
            (mark + mark + Array(Self.text.utf8), "application/json", false),
            (Array(Self.text.utf8) + mark, "application/json", false),
            (Array("{".utf8) + mark + Array(Self.text.utf8).dropFirst(), "application/json", false),
        ] {
            let server = try RawServer { _ in .http(200, [("Content-Type", type)], body) }
            try await Support.with(settings(server.base)) { client in
                let exchanger = try #require(client as? any CodeExchanging)
                let tokens = try? await exchanger.redeem(Support.grant(), by: Support.deadline)
                #expect((tokens?.accessToken.reveal() == "at-1") == isGood, "\(body)")
            }
        }
        var answers = RawProvider.Answers()
        answers.userinfo = { _ in
            .http(200, [("Content-Type", "application/json")], mark + Array(#"{"sub":"u1"}"#.utf8))
        }
        let provider = try RawProvider(answers)
        #expect(
            try await provider.signIn(provider.settings { $0.identity.source = .userinfo }).identity.subject == "u1")
        let token = try TestKeys.es256(#"{"sub":"u1"}"#)
        answers.userinfo = { _ in .http(200, [("Content-Type", "application/jwt")], mark + Array(token.utf8)) }
        let signed = try RawProvider(answers)
        guard
            case .identityRejected = await Support.failure({
                try await signed.signIn(signed.settings { $0.identity.source = .userinfo })
            })
        else { return #expect(Bool(false)) }
    }
}
