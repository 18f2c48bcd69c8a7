import Broker
import HTTPTypes
import NIOHTTP1
import Testing

@testable import BrokerRelay

@Suite("Header rules (SEC-75 to SEC-79)", .timeLimit(.minutes(2)))
struct HeaderRulesTests {
    private static func fields(_ list: [(String, String)]) throws -> HTTPFields {
        var fields = HTTPFields()
        for (name, value) in list { fields.append(HTTPField(name: try #require(HTTPField.Name(name)), value: value)) }
        return fields
    }

    private static func sent(_ list: [(String, String)], extra: Set<String> = []) throws -> [String: [String]] {
        let headers = RequestHeaderRules.headers(
            from: try fields(list), extra: extra, host: "api.example.com", requestID: "req-1",
            credential: ("Authorization", "Bearer T"))
        return Dictionary(grouping: headers.map { ($0.name.lowercased(), $0.value) }, by: \.0).mapValues { $0.map(\.1) }
    }

    private static let ours = ["host": ["api.example.com"], "authorization": ["Bearer T"], "x-request-id": ["req-1"]]

    @Test(
        "An app sends a field that upstreams trust, in any letter case or with `_` for `-` → the relay removes it (SEC-75)"
    )
    func dropped() throws {
        let sent = try Self.sent([
            ("Cookie", "__Host-coatcheck=x"), ("Authorization", "Bearer mine"), ("AUTHORIZATION", "x"),
            ("Proxy-Authorization", "x"), ("X-Forwarded-For", "1.2.3.4"), ("Forwarded", "for=x"), ("Via", "x"),
            ("X-Real-IP", "x"), ("X-Auth-Subject", "root"), ("X_Auth_Subject", "root"), ("Accept_Language", "x"),
            ("If_Match", "x"), ("if-none_match", "x"), ("X-Request-Id", "evil"), ("Host", "evil"), ("Origin", "x"),
            ("Referer", "x"), ("TE", "trailers"), ("Trailer", "x"), ("Keep-Alive", "x"), ("Content-Length", "5"),
            ("Transfer-Encoding", "chunked"), ("Expect", "100-continue"), ("X-HTTP-Method-Override", "DELETE"),
            ("Sec-Fetch-Site", "x"), ("X-Coatcheck-Session", "x"), ("Priority", "u=1"), ("Date", "x"),
        ])
        #expect(sent == Self.ours)
    }

    @Test(
        "A call is traced → `traceparent` is the broker's; the app's `tracestate` is sent only if the app's trace continues"
    )
    func traced() throws {
        struct FixedSpan: TraceSpan {
            let continuesCaller: Bool
            var traceID: String { "ours" }
            var traceparent: String { "ours" }
            var ownTraceparent: String { "own" }
            func child(_ name: String, _ kind: TraceKind) -> any TraceSpan { self }
            func set(_ name: StaticString, _ value: String) {}
            func set(_ name: StaticString, _ value: Int) {}
            func rename(_ name: String) {}
            func believeCaller() {}
            func end(_ fault: String?) {}
        }
        for continues in [true, false] {
            let headers = RequestHeaderRules.headers(
                from: try Self.fields([("traceparent", "a"), ("Traceparent", "b"), ("tracestate", "s")]), extra: [],
                host: "api.example.com", requestID: "req-1", span: FixedSpan(continuesCaller: continues),
                credential: ("Authorization", "Bearer T"))
            #expect(headers["traceparent"] == ["ours"])
            #expect(headers["tracestate"] == (continues ? ["s"] : []))
        }
    }

    @Test(
        "An app sends fields that the relay or `request_headers` lists → sent with every value; it sends other fields → removed"
    )
    func passed() throws {
        let sent = try Self.sent(
            [
                ("Accept", "a"), ("accept", "b"), ("Accept-Language", "de"), ("Accept-Encoding", "gzip"),
                ("Content-Type", "text/plain"), ("Content-Encoding", "br"), ("If-None-Match", "\"x\""),
                ("If-Modified-Since", "d"), ("Range", "bytes=0-1"), ("User-Agent", "app/1"), ("Idempotency-Key", "k"),
                ("traceparent", "t"), ("tracestate", "s"), ("X-Api-Version", "3"), ("X-Other", "no"),
            ], extra: ["x-api-version"])
        #expect(sent["accept"] == ["a", "b"])
        #expect(sent["x-api-version"] == ["3"])
        #expect(sent["x-other"] == nil)
        #expect(sent.count == Self.ours.count + 13)
    }

    @Test(
        "An app's `Connection` names fields → the app's fields with these names are removed; the broker's own stay (SEC-76)",
        arguments: [
            "Authorization", "authorization, Host, X-Request-Id", "close, Accept , ,\tUser-Agent\t",
            "keep-alive, Accept",
            ",,,", "", "Authorization;x", "ACCEPT",
        ])
    func connection(value: String) throws {
        let sent = try Self.sent([("Connection", value), ("Accept", "a"), ("User-Agent", "app"), ("Range", "r")])
        for (name, values) in Self.ours { #expect(sent[name] == values) }
        let named = value.lowercased()
        #expect((sent["accept"] == nil) == named.contains("accept"))
        #expect((sent["user-agent"] == nil) == named.contains("user-agent"))
        #expect(sent["range"] == ["r"])
        #expect(sent["connection"] == nil)
    }

    @Test(
        "`Upgrade` or `Connection` asks for another protocol than h2c → the call counts as an upgrade (SEC-80)",
        arguments: [
            [("Upgrade", "websocket")], [("upgrade", "TLS/1.2")], [("Connection", "keep-alive, UPGRADE")],
            [("Connection", "Upgrade, HTTP2-Settings"), ("HTTP2-Settings", "AAA")], [("Upgrade", "")],
            [("Upgrade", "h2c, websocket")], [("Upgrade", "h2c"), ("Upgrade", "websocket")], [("Upgrade", "h2")],
            [("Upgrade", "h2c/1")], [("Upgrade", "websocket h2c")], [("Upgrade", ",")],
        ])
    func upgrade(_ fields: [(String, String)]) throws {
        #expect(RequestHeaderRules.asksForUpgrade(try Self.fields(fields)))
    }

    @Test(
        "An app offers h2c → the offer does not count as an upgrade, and its fields are removed (SEC-80)",
        arguments: [
            [("Upgrade", "h2c")], [("upgrade", "H2C")], [("HTTP2-Settings", "AAA")],
            [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAEAAEAA")],
            [("Connection", "upgrade"), ("Upgrade", "h2c, h2c")],
            [("Connection", "keep-alive"), ("Accept", "upgrade")],
        ])
    func offer(_ fields: [(String, String)]) throws {
        #expect(!RequestHeaderRules.asksForUpgrade(try Self.fields(fields)))
        let sent = try Self.sent(fields)
        #expect(sent["upgrade"] == nil && sent["http2-settings"] == nil && sent["connection"] == nil)
    }

    private static func answered(_ list: [(String, String)], token: String = "TOKEN") throws -> HTTPFields {
        try ResponseHeaderRules.head(
            from: HTTPHeaders(list), token: token,
            places: RelayedLocation(
                upstream: "api", base: UpstreamBase("https://api.example.com"), target: "/v1/items", own: [])
        ).fields
    }

    @Test("An upstream's response field that would act for the broker's origin → removed (SEC-77)")
    func responseDropped() throws {
        let fields = try Self.answered([
            ("Set-Cookie", "a=b"), ("set-cookie", "c=d"), ("Set-Cookie2", "x"), ("WWW-Authenticate", "Bearer"),
            ("Clear-Site-Data", "*"), ("Strict-Transport-Security", "x"), ("Alt-Svc", "h3"), ("Server", "nginx"),
            ("Access-Control-Allow-Origin", "*"), ("access-control-expose-headers", "x"), ("X-Auth-Subject", "root"),
            ("X_Auth_Subject", "root"), ("Set_Cookie", "a=b"), ("Coatcheck-Source", "broker"),
            ("coatcheck_source", "x"),
            ("Connection", "close"), ("Keep-Alive", "timeout=5"), ("Proxy-Connection", "x"), ("Upgrade", "h2c"),
            ("Trailer", "X"), ("TE", "x"), ("Proxy-Authenticate", "x"), ("X-Request-Id", "theirs"),
            ("X-Accel-Redirect", "/secret"), ("X-Sendfile", "/etc/passwd"), ("Public-Key-Pins", "x"),
            ("Content-Length", "3"), ("NEL", "{}"), ("Report-To", "{}"), ("Report_To", "{}"),
            ("Reporting-Endpoints", "a=\"https://collector.example\""), ("Expect-CT", "x"),
            ("Content-Security-Policy-Report-Only", "x"), ("Cross-Origin-Opener-Policy-Report-Only", "x"),
            ("Permissions-Policy-Report-Only", "x"), ("Integrity-Policy-Report-Only", "x"),
            ("X_Anything_Report_Only", "x"), ("Public-Key-Pins-Report-Only", "x"), ("Service-Worker-Allowed", "/"),
            ("service_worker_allowed", "/"), ("Set-Login", "logged-in"), ("Origin-Agent-Cluster", "?1"),
            ("Accept-CH", "Sec-CH-UA-Model"), ("Accept-CH-Lifetime", "5"), ("Critical-CH", "x"),
            ("Permissions-Policy", "camera=*"), ("Feature-Policy", "x"), ("Document-Policy", "x"),
            ("Require-Document-Policy", "x"), ("Integrity-Policy", "x"), ("Origin-Trial", "x"),
            ("Cross-Origin-Opener-Policy", "unsafe-none"), ("Cross-Origin-Embedder-Policy", "x"),
            ("Cross-Origin-Resource-Policy", "cross-origin"), ("Speculation-Rules", "x"),
            ("Supports-Loading-Mode", "x"), ("Use-As-Dictionary", "match=\"/*\""), ("Activate-Storage-Access", "load"),
            ("Observe-Browsing-Topics", "?1"), ("Timing-Allow-Origin", "*"), ("Sec-Session-Registration", "x"),
            ("Attribution-Reporting-Register-Source", "{}"), ("Shared-Storage-Write", "x"), ("Ad-Auction-Allowed", "x"),
            ("X-Permitted-Cross-Domain-Policies", "all"), ("X-DNS-Prefetch-Control", "on"),
            ("Authentication-Info", "x"), ("Forwarded", "for=x"), ("X-Forwarded-For", "1.2.3.4"),
            ("X-Forwarded-Host", "x"), ("X_Forwarded_Proto", "https"), ("X-Coatcheck-Session", "x"),
            ("x_coatcheck_backend", "x"), ("CDN-Cache-Control", "max-age=9"),
            ("Cloudflare-CDN-Cache-Control", "max-age=9"), ("Surrogate-Control", "max-age=9"), ("Edge-Control", "x"),
        ])
        #expect(
            fields.map { "\($0.name.canonicalName): \($0.value)" } == [
                "cache-control: private, no-store", "coatcheck-source: upstream",
            ])
    }

    @Test(
        "An upstream's `X-Accel-Buffering: no` or `yes` → passed on; another value, or listed in `Connection` → removed (SEC-77)"
    )
    func buffering() throws {
        let name = try #require(HTTPField.Name("X-Accel-Buffering"))
        for word in ["no", "yes", "No"] { #expect(try Self.answered([("X-Accel-Buffering", word)])[name] == word) }
        for (field, value) in [("X-Accel-Buffering", "off"), ("X_Accel_Buffering", "no"), ("X-Accel-Limit-Rate", "1")] {
            #expect(try Self.answered([(field, value)]).count == 2, "\(field): \(value)")
        }
        #expect(try Self.answered([("X-Accel-Buffering", "no"), ("Connection", "X-Accel-Buffering")])[name] == nil)
    }

    @Test(
        "An upstream sends ordinary response fields → passed on, and `private` is added to its `Cache-Control` (SEC-41)"
    )
    func responsePassed() throws {
        let fields = try Self.answered([
            ("Content-Type", "text/plain"), ("ETag", "\"x\""), ("Cache-Control", "max-age=5"), ("Vary", "Accept"),
            ("X-Custom", "1"), ("X-Custom", "2"), ("Location", "https://elsewhere.example/"), ("Retry-After", "3"),
            ("Content-Encoding", "gzip"), ("Date", "now"),
        ])
        #expect(fields[.cacheControl] == "private, max-age=5")
        #expect(fields[.vary] == "Cookie, Authorization, Coatcheck-Pass, Accept")
        #expect(fields[values: try #require(HTTPField.Name("X-Custom"))] == ["1", "2"])
        #expect(fields[.location] == "https://elsewhere.example/")
        #expect(fields[.coatcheckSource] == "upstream")
        #expect(fields.count == 11)
    }

    @Test(
        "An upstream's answer does not allow shared caches → it becomes private, and its Vary lists the credentials (SEC-41)",
        arguments: [
            ["max-age=300"], ["must-revalidate, max-age=300"], ["no-cache"], [""], ["private=\"Set-Cookie\""],
            ["private=\"X, public\", max-age=5"], ["ext=\"public\""], ["ext=\"a\\\", public, b\""], ["public=\"x\""],
            ["public=1"], ["publicly"], ["x-public, s-maxage"], ["s-maxage=soon"], ["s-maxage=\"\""],
            ["max-age=5; public"], ["max-age=5 public"], ["\"public\""], ["ext=\"open, public"],
            ["ext=\"open", "public\""], ["max-age=", "s-maxage="], ["=public"], ["max-age = 5"],
        ])
    func madePrivate(values: [String]) throws {
        let fields = try Self.answered(values.map { ("Cache-Control", $0) } + [("Vary", "Accept"), ("Vary", "Origin")])
        #expect(
            fields[values: .cacheControl] == [(["private"] + values.filter { !$0.isEmpty }).joined(separator: ", ")])
        #expect(fields[values: .vary] == ["Cookie, Authorization, Coatcheck-Pass, Accept, Origin"])
    }

    @Test(
        "An upstream's answer allows shared caches → its Cache-Control and Vary stay (SEC-41)",
        arguments: [
            ["public"], ["PUBLIC, max-age=5"], ["max-age=5,public"], ["max-age=5", "public"], [",, ,public"],
            ["s-maxage=0"], ["S-MaxAge=60"], ["s-maxage=\"60\""], ["ext=\"a, b\", public"],
            ["ext=\"\\\"\", s-maxage=1"], ["private=\"X\", public"],
        ])
    func madePublic(values: [String]) throws {
        let fields = try Self.answered(values.map { ("Cache-Control", $0) } + [("Vary", "Accept")])
        #expect(fields[values: .cacheControl] == values)
        #expect(fields[values: .vary] == ["Accept"])
    }

    @Test(
        "An upstream's answer is private or no-store → its Cache-Control stays, and its Vary lists the credentials",
        arguments: ["private", "no-store, Private", "private,max-age=1"])
    func keptPrivate(value: String) throws {
        let fields = try Self.answered([("Cache-Control", value)])
        #expect(fields[values: .cacheControl] == [value])
        #expect(fields[values: .vary] == ["Cookie, Authorization, Coatcheck-Pass"])
    }

    @Test(
        "An upstream's `Connection` names response fields → these fields are removed, and `Cache-Control` is replaced (SEC-76)"
    )
    func responseConnection() throws {
        let fields = try Self.answered([
            ("X-Hop", "1"), ("Cache-Control", "public"),
            ("Connection", "close, x-hop, Cache-Control, Coatcheck-Source"),
        ])
        #expect(fields.count == 2)
        #expect(fields[.cacheControl] == "private, no-store")
        #expect(fields[.coatcheckSource] == "upstream")
    }

    @Test("An upstream's `Location` or `Link` repeats the access token of the call → this field is removed (SEC-77)")
    func tokenInLocation() throws {
        let fields = try Self.answered([
            ("Location", "https://x/?access_token=TOKEN"), ("Link", "<https://x/TOKEN>"), ("Content-Location", "/ok"),
        ])
        #expect(fields[.location] == nil)
        #expect(fields[.contentLocation] == "/v1/relay/api/ok")
        #expect(fields.count == 3)
    }

    @Test(
        "The value of a response field has control bytes → 502 (SEC-78)",
        arguments: ["a\rb", "a\nb", "a\u{0}b", "a\u{1}", "\u{7F}", "a\u{1B}[2J"])
    func controlBytes(value: String) {
        #expect(throws: ResponseHeaderRules.Fault.badValue) { try Self.answered([("X-A", value)]) }
        #expect(throws: ResponseHeaderRules.Fault.badValue) { try Self.answered([("Set-Cookie", value)]) }
        #expect(throws: ResponseHeaderRules.Fault.badValue) {
            try ResponseHeaderRules.status(.custom(code: 299, reasonPhrase: value))
        }
    }

    @Test("The name of a response field is not a token (RFC 9110) → 502", arguments: ["", "a b", "a:b", "é", "a\r\nb"])
    func badName(name: String) {
        #expect(throws: ResponseHeaderRules.Fault.badName) { try Self.answered([(name, "x")]) }
    }

    @Test(
        "An upstream's answer has framing that two parsers could read differently → 502 (SEC-79)",
        arguments: [
            [("Content-Length", "1"), ("Content-Length", "2")], [("Content-Length", "1"), ("Content-Length", "1")],
            [("Content-Length", "+1")], [("Content-Length", "-1")], [("Content-Length", "0x1")],
            [("Content-Length", "1, 1")],
            [("Content-Length", " ")], [("Content-Length", "99999999999999999999")],
            [("Transfer-Encoding", "gzip, chunked")],
            [("Transfer-Encoding", "identity")], [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")],
            [("Transfer-Encoding", "chunked"), ("Content-Length", "3")], [("Transfer-Encoding", "xchunked")],
        ])
    func framing(list: [(String, String)]) {
        #expect(throws: ResponseHeaderRules.Fault.ambiguousFraming) { try Self.answered(list) }
    }

    @Test(
        "An upstream answers with a status below 200 or above 599 → 502 (SEC-80)",
        arguments: [100, 101, 103, 199, 600, 999])
    func badStatus(code: Int) {
        #expect(throws: ResponseHeaderRules.Fault.badStatus) {
            try ResponseHeaderRules.status(HTTPResponseStatus(statusCode: code, reasonPhrase: "x"))
        }
    }
}
