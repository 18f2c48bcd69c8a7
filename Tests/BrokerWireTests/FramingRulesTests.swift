import NIOHTTP1
import Testing

@testable import BrokerWire

@Suite("Framing rules", .timeLimit(.minutes(2)))
struct FramingRulesTests {
    private func verdict(
        _ uri: String = "/", _ headers: [(String, String)] = [("Host", "a.example")], version: HTTPVersion = .http1_1,
        method: HTTPMethod = .GET
    ) -> FramingRules.Verdict {
        FramingRules.check(
            HTTPRequestHead(version: version, method: method, uri: uri, headers: HTTPHeaders(headers)))
    }

    @Test(
        "A request's target is neither a path nor an absolute URL of the broker → refused (SEC-101, SEC-103)",
        arguments: [
            "*", "a.example:443", "v1/session", "ftp://a.example/", "http://b.example/", "http://a.example:81/",
            "http://u@a.example/", "http:///x", "http://", "/a#b", "/a b", "/\u{E9}", "\\x", "http:/a.example/", "",
        ])
    func targets(uri: String) { #expect(verdict(uri) == .refuse) }

    @Test("A request's target is an absolute URL with the same authority as its Host → reduced to its path")
    func absoluteForm() {
        for (uri, path) in [
            ("http://a.example/x?y", "/x?y"), ("HTTP://A.example", "/"), ("https://a.example?q", "/?q"),
        ] {
            #expect(verdict(uri) == .pass(summary(), path: path))
        }
    }

    @Test(
        "A request's Host is missing, doubled or malformed → refused (SEC-103)",
        arguments: [
            [], [("Host", "a.example"), ("host", "a.example")], [("Host", "")], [("Host", "a b")], [("Host", "a,b")],
            [("Host", "u@a")], [("Host", "a:")], [("Host", "a:123456")], [("Host", "a:1x")], [("Host", "[::1")],
            [("Host", "[]")], [("Host", "[::1]x")], [("Host", "a/b")], [("Host", "a%2e")], [("Host", ":80")],
        ] as [[(String, String)]])
    func hosts(headers: [(String, String)]) { #expect(verdict("/", headers) == .refuse) }

    @Test(
        "An HTTP/1.0 request has no Host → a GET or HEAD without a body is served, any other request is refused (SEC-103)"
    )
    func withoutHost() {
        for method in [HTTPMethod.POST, .PUT, .DELETE, .OPTIONS, .TRACE, .CONNECT] {
            #expect(verdict("/livez", [], version: .http1_0, method: method) == .refuse)
        }
        for field in [
            ("Content-Length", "0"), ("Content-Length", "2"), ("Transfer-Encoding", "chunked"), ("X_Host", "a"),
            ("Connection", "\u{E9}"),
        ] {
            #expect(verdict("/livez", [field], version: .http1_0) == .refuse)
        }
        #expect(verdict("/livez", []) == .refuse && verdict("/livez", [], method: .HEAD) == .refuse)
        #expect(verdict("/livez", [("X-A", "b")], version: .http1_0) == .nameless(closing(minorVersion: 0)))
        var head = closing(minorVersion: 0)
        head.isHead = true
        #expect(verdict("/livez", [], version: .http1_0, method: .HEAD) == .nameless(head))
    }

    @Test(
        "A request's Host is a well-formed name or address, with or without a port → accepted",
        arguments: ["a", "A.b-c_d~:65535", "127.0.0.1:1", "[::1]", "[::1]:8080"])
    func goodHosts(host: String) {
        #expect(verdict("/", [("Host", host)]) == .pass(summary(), path: nil))
    }

    @Test(
        "A request's framing fields could be read differently by two parsers → refused (SEC-101)",
        arguments: [
            [("Transfer-Encoding", "gzip, chunked")], [("Transfer-Encoding", "chunked, chunked")],
            [("Transfer-Encoding", "chunked "), ("Transfer-Encoding", "chunked")], [("Transfer-Encoding", "identity")],
            [("Transfer-Encoding", "chunked"), ("Content-Length", "3")], [("Content-Length", "+3")],
            [("Content-Length", "0x3")], [("Content-Length", "3"), ("Content-Length", "3")], [("Content-Length", "")],
            [("Content-Length", "3,3")], [("X_Auth_User", "root")], [("Content_Length", "3")],
        ] as [[(String, String)]])
    func framing(headers: [(String, String)]) {
        #expect(verdict("/", [("Host", "a.example")] + headers) == .refuse)
    }

    @Test(
        "HTTP/1.0 with `Transfer-Encoding` → refused; HTTP/1.0, `Upgrade` or `Connection: close` → the connection's last request"
    )
    func oldVersion() {
        let host = ("Host", "a.example")
        #expect(verdict("/", [host, ("Transfer-Encoding", "chunked")], version: .http1_0) == .refuse)
        #expect(verdict("/", [host], version: .http1_0) == .pass(closing(minorVersion: 0), path: nil))
        #expect(verdict("/", [host, ("Upgrade", "h2c")]) == .pass(closing(), path: nil))
        #expect(verdict("/", [host, ("Connection", "x, Close")]) == .pass(closing(), path: nil))
        #expect(
            verdict("/", [host, ("Expect", "100-Continue")])
                == .pass(summary { $0.expectsContinue = true }, path: nil))
        // HTTP/1.0 has no interim answers (RFC 9110 section 10.1.1).
        #expect(
            verdict("/", [host, ("Expect", "100-continue")], version: .http1_0)
                == .pass(closing(minorVersion: 0), path: nil))
    }

    @Test("A request has Content-Length above 0 or Transfer-Encoding → it has a body; Content-Length 0 → it has none")
    func bodies() {
        let host = ("Host", "a.example")
        #expect(verdict("/", [host, ("Content-Length", "0")]) == .pass(summary(), path: nil))
        let five = summary {
            $0.hasBody = true
            $0.bodyLength = 5
        }
        #expect(verdict("/", [host, ("Content-Length", "5")]) == .pass(five, path: nil))
        #expect(
            verdict("/", [host, ("Transfer-Encoding", "chunked")]) == .pass(summary { $0.hasBody = true }, path: nil))
    }

    private func summary(
        _ configure: (inout ServerConnection.Head) -> Void = { _ in }
    ) -> ServerConnection.Head {
        var head = ServerConnection.Head()
        configure(&head)
        return head
    }

    private func closing(minorVersion: Int = 1) -> ServerConnection.Head {
        summary {
            $0.closes = true
            $0.minorVersion = minorVersion
        }
    }
}
