import Broker
import HTTPTypes
import Testing

@testable import BrokerRelay

@Suite("References in an upstream's answer (SEC-77)", .timeLimit(.minutes(1)))
struct RelayedLocationTests {
    private static let own = Set(["https://auth.example.com", "other.example:8443"].compactMap { OwnName($0) })

    private func mapped(
        _ value: String, base: String = "https://api.example.com/v3.0", target: String = "/v3.0/items?page=1"
    ) throws -> String? {
        try RelayedLocation(upstream: "api", base: UpstreamBase(base), target: target, own: Self.own).mapped(value)
    }

    @Test(
        "An upstream's `Location` would lead the app to a path of the broker outside of this upstream → removed",
        arguments: [
            // Paths of the broker, and of another upstream.
            "/v1/relay/other/transfer?to=evil", "/v1/session/refresh", "/", "/v3.0x/items", "/v3", "?", "/?a",
            "../v1/session", "../../v1/relay/other/x", "/v3.0/../v1/session", "/v3.0/items/../../v1/session",
            "/v3.0/./../v1/session", "..", "../", ".././..",
            // Spellings that some servers, but not all, read as a path of the broker.
            "/v3.0/%2e%2e/v1/session", "/v3.0/.%2E/v1/session", "/v3.0/%2e%2e%2fv1/session", "\\v1\\session",
            "/\\evil.example/x", "/v3.0\\..\\v1", "/v3.0/..;/v1/session", "/v3.0//x", "https:/v1/session",
            "https:v1/session", "https:///v1/session", "http:\\\\auth.example.com/", "//", "///v1/session",
            "/v3.0/\tx", "", "#", "/v3.0/%", "/v3.0/%zz",
            // The broker's own names.
            "https://auth.example.com/v1/session", "HTTPS://AUTH.example.COM/v1/session", "https://auth.example.com",
            "https://auth.example.com:443/", "http://auth.example.com/v1/session", "http://auth.example.com:80/x",
            "//auth.example.com/v1/relay/other/x", "https://auth.example.com?x", "https://auth.example.com#x",
            "https://other.example:8443/", "https://other.example/", "https://auth.example.com./v1/session",
            "https://x@auth.example.com/", "https://x:y@auth.example.com/", "https://%61uth.example.com/",
            "https://auth%2eexample.com/", "https://\u{FF41}uth.example.com/", "https://auth.example.com\\@x/",
            "https:// auth.example.com/", "https://auth.example.com:0443x/",
        ])
    func dropped(value: String) throws {
        // An empty reference, `#` and `?` lead to the called resource. So the called resource must be outside of the base
        // URL here.
        let result = try mapped(
            value, target: value.isEmpty || value == "#" || value == "?" ? "/" : "/v3.0/items?page=1")
        #expect(result == nil, "\(value)")
    }

    @Test(
        "An upstream's `Location` is under the upstream's base URL → replaced by the relay's path for this upstream",
        arguments: [
            ("/v3.0/items/5", "/v1/relay/api/items/5"), ("/v3.0", "/v1/relay/api/"), ("/v3.0/", "/v1/relay/api/"),
            ("/v3.0?a=b", "/v1/relay/api/?a=b"),
            ("/v3.0/items/5?a=/../b#c/../d", "/v1/relay/api/items/5?a=/../b#c/../d"),
            ("https://api.example.com/v3.0/items/5", "/v1/relay/api/items/5"),
            ("HTTPS://API.EXAMPLE.COM:443/v3.0/x", "/v1/relay/api/x"), ("//api.example.com/v3.0/x", "/v1/relay/api/x"),
            ("http://api.example.com/v3.0/x", "/v1/relay/api/x"), ("5", "/v1/relay/api/5"), ("./5", "/v1/relay/api/5"),
            ("items/5", "/v1/relay/api/items/5"), ("a/../b/.", "/v1/relay/api/b/"), ("b/..", "/v1/relay/api/"),
            ("?page=2", "/v1/relay/api/items?page=2"), ("#top", "/v1/relay/api/items?page=1#top"),
            ("items/caf\u{E9} 1", "/v1/relay/api/items/caf%C3%A9%201"), ("/v3.0/%7euser", "/v1/relay/api/~user"),
            ("/v3.0/x?{a}|\"b\"", "/v1/relay/api/x?%7Ba%7D%7C%22b%22"), ("/v3.0/a:b", "/v1/relay/api/a:b"),
            ("./a:b", "/v1/relay/api/a:b"),
        ])
    func relayed(value: String, expected: String) throws { #expect(try mapped(value) == expected) }

    @Test(
        "An upstream's `Location` is an absolute URL outside of the base URL and the broker → unchanged",
        arguments: [
            "https://api.example.com/v4/items", "https://api.example.com/v3.0x", "https://api.example.com",
            "https://api.example.com:8443/v3.0/x", "https://cdn.example.com/v3.0/x",
            "https://auth.example.com.evil.example/",
            "https://auth.example.com:8443/", "https://[2001:db8::1]:81/x",
            "http://evil.example?next=https://auth.example.com/",
            "https://api.example.com/v3.0/a;b/c", "com.example.app:/cb?code=1", "mailto:ana@example.com", "urn:a:b",
        ])
    func elsewhere(value: String) throws { #expect(try mapped(value) == value) }

    @Test("An upstream's `Location` begins with `//` → the same address with the upstream's scheme")
    func schemeless() throws {
        #expect(try mapped("//cdn.example.com/x") == "https://cdn.example.com/x")
        #expect(try mapped("//cdn.example.com/x", base: "http://127.0.0.1:9000") == "http://cdn.example.com/x")
    }

    @Test(
        "An upstream's base URL has no path, or the broker's host → only references under this base URL become relay paths"
    )
    func bases() throws {
        #expect(try mapped("/v1/session", base: "http://127.0.0.1:9000", target: "/x") == "/v1/relay/api/v1/session")
        #expect(try mapped("/../v1/session", base: "http://127.0.0.1:9000", target: "/x") == nil)
        #expect(try mapped("/api/x", base: "https://auth.example.com/api", target: "/api/y") == "/v1/relay/api/x")
        #expect(
            try mapped("https://auth.example.com/api/x", base: "https://auth.example.com/api", target: "/api/y")
                == "/v1/relay/api/x")
        #expect(
            try mapped("https://auth.example.com/v1/x", base: "https://auth.example.com/api", target: "/api/y") == nil)
        #expect(
            try mapped("http://127.0.0.1:9001/x", base: "http://127.0.0.1:9000", target: "/y")
                == "http://127.0.0.1:9001/x")
    }

    @Test("An upstream redirects a call → its `Location` and `Content-Location` are mapped for the app, or removed")
    func wire() async throws {
        try await ScriptedUpstream.run({ connection in
            while let request = try await connection.request() {
                let target = request.target.split(separator: "?").last.map(String.init) ?? ""
                try await connection.answer(
                    "307 Temporary Redirect", fields: ["Location: \(target)", "Content-Location: \(target)"])
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url + "/base", ownNames: ["https://auth.example.com"]) {
                (fixture) async throws in
                for (sent, expected) in [
                    ("/v1/relay/other/transfer", nil), ("/base/5", "/v1/relay/api/5"), ("5", "/v1/relay/api/5"),
                    ("https://elsewhere.example/", "https://elsewhere.example/"),
                    ("https://auth.example.com/v1/session", nil),
                ] {
                    let response = try await fixture.call(.post, "/items?\(sent)")
                    #expect(response.status.code == 307)
                    #expect(response.headers[.location] == expected)
                    #expect(response.headers[.contentLocation] == expected)
                }
            }
        }
    }
}
