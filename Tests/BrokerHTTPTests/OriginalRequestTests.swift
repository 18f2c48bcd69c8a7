import Broker
import BrokerTestSupport
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("The request that a proxy asks about", .timeLimit(.minutes(1)))
struct OriginalRequestTests {
    private func target(_ lines: [(String, String)]) throws -> ProofTarget? {
        var fields = HTTPFields()
        for (name, value) in lines {
            fields.append(HTTPField(name: try #require(HTTPField.Name(name)), value: value))
        }
        return try OriginalRequest.target(in: fields) { _ in true }
    }

    private func forwarded(_ path: String) -> [(String, String)] {
        [
            ("X-Forwarded-Method", "GET"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "shop.example.com"),
            ("X-Forwarded-Uri", path),
        ]
    }

    @Test(
        "`X-Original` and `X-Forwarded` fields name different requests, even if only the encoding of one letter differs → 400"
    )
    func otherBytes() throws {
        // Two spellings of `é`: one character, or a letter followed by an accent.
        let (one, two) = ("/caf\u{E9}", "/cafe\u{301}")
        #expect(one == two)
        for (url, path) in [(one, two), (two, one), ("/a", "/b")] {
            let problem = problem {
                try target([("X-Original-URL", "https://shop.example.com\(url)")] + forwarded(path))
            }
            #expect(problem?.code == .invalidRequest, "\(url) \(path)")
            #expect(problem?.errors == [FieldFault("X-Original-URL", .conflict)])
        }
        let methods = problem { try target([("X-Original-Method", "POST")] + forwarded("/a")) }
        #expect(methods?.errors == [FieldFault("X-Original-Method", .conflict)])
        let same = try target(
            [("X-Original-Method", "GET"), ("X-Original-URL", "https://shop.example.com/a")] + forwarded("/a"))
        #expect(same?.method == "GET")
    }

    @Test(
        "Another parser could read a forwarded host or address differently → refused, and the answer names its field",
        arguments: [
            "shop.example.com?", "shop.example.com#", "shop.example.com/", "shop.example.com/a", "shop.example.com\\",
            "a@shop.example.com", "shop.example.com:", "shop.example.com:x", "shop.example.com:443:443",
            "shop.example.com:443?", "shop.example.com, other.example.com", "shop example.com", "", "[::1", "[::1]x",
            "shop%2Eexample.com", "shop.example.com;", "shop.example.com\u{E9}",
        ])
    func oddHosts(host: String) throws {
        let lines = [
            ("X-Forwarded-Method", "GET"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", host),
            ("X-Forwarded-Uri", "/admin"),
        ]
        #expect(problem { try target(lines) }?.errors == [FieldFault("X-Forwarded-Host", .malformed)], "\(host)")
        let whole = [("X-Original-Method", "GET"), ("X-Original-URL", "https://\(host)/admin")]
        // A host with a slash makes a valid URL with a longer path. The proof has to name this longer path, so the broker need
        // not refuse the URL.
        guard !host.contains("/") else { return }
        #expect(problem { try target(whole) }?.errors == [FieldFault("X-Original-URL", .malformed)], "\(host)")
    }

    @Test(
        "A forwarded request has a malformed scheme, no path or a fragment → refused, and the answer names the field"
    )
    func oddParts() throws {
        func lines(_ scheme: String, _ uri: String) -> [(String, String)] {
            [
                ("X-Forwarded-Method", "GET"), ("X-Forwarded-Proto", scheme), ("X-Forwarded-Host", "shop.example.com"),
                ("X-Forwarded-Uri", uri),
            ]
        }
        for (scheme, uri, field) in [
            ("https://evil.example/?", "/admin", "X-Forwarded-Proto"), ("", "/a", "X-Forwarded-Proto"),
            ("https, http", "/a", "X-Forwarded-Proto"), ("https", "admin", "X-Forwarded-Uri"),
            ("https", "?/admin", "X-Forwarded-Uri"), ("https", "/#/admin", "X-Forwarded-Uri"),
            ("https", "", "X-Forwarded-Uri"),
        ] {
            #expect(
                problem { try target(lines(scheme, uri)) }?.errors == [FieldFault(field, .malformed)],
                "\(scheme) \(uri)")
        }
        for url in [
            "https://shop.example.com?/admin", "https://shop.example.com", "https://shop.example.com/#/admin", "/a",
        ] {
            let problem = problem { try target([("X-Original-Method", "GET"), ("X-Original-URL", url)]) }
            #expect(problem?.errors == [FieldFault("X-Original-URL", .malformed)], "\(url)")
        }
        for host in ["shop.example.com", "Shop.example.com:8443", "[2001:db8::1]:443", "10.0.0.1", "my_shop"] {
            var good = lines("https", "/a?b=c")
            good[2].1 = host
            let made = try target(good)
            guard case .foreign(let address)? = made?.address else { Issue.record("\(host)"); continue }
            #expect(address?.path == "/a", "\(host)")
        }
    }

    private func problem(_ body: () throws -> ProofTarget?) -> BrokerProblem? {
        do {
            _ = try body()
            return nil
        } catch { return error as? BrokerProblem }
    }
}
