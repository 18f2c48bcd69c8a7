import Broker
import Testing

@testable import BrokerRelay

@Suite("Upstream settings (SEC-71, SEC-72, SEC-74)", .timeLimit(.minutes(2)))
struct UpstreamSettingsTests {
    static func settings(
        _ url: String = "https://api.example.com", allow: [String] = ["GET /**"], clients: [ClientName]? = nil,
        headers: [String] = [], timeout: Duration = .seconds(30), isInternal: Bool = false, maximumConcurrent: Int = 8
    ) throws(UpstreamFaults) -> UpstreamSettings {
        try UpstreamSettings(
            name: UpstreamName(unchecked: "api"), baseURL: url, provider: ProviderName(unchecked: "google"),
            clients: clients, allow: allow, requestHeaders: headers, timeout: timeout, isInternal: isInternal,
            maximumConcurrent: maximumConcurrent)
    }

    @Test(
        "An upstream's base URL lacks https, or has more than a host, a port and a plain path → refused",
        arguments: [
            "", "api.example.com", "http://api.example.com", "http://10.0.0.1", "ftp://x", "https://", "https:///a",
            "https://user@api.example.com", "https://user:pw@api.example.com", "https://a?b", "https://a#b",
            "https://a:0", "https://a:65536", "https://a:x", "https://a:", "https://a:80:80", "https://[::1",
            "https://[x]",
            "https://[::1]x", "https://a/../b", "https://a//b", "https://a/b;c", "https://a/%2e%2e", "https://a b",
            "https://a\r\nb", "https://ä.example", "https://-a", "https://a..b", "https://a\\b", "https://a%2fb",
            "http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://128.0.0.1",
            "https+unix://%2Ftmp%2Fx", "unix:///tmp/x",
        ])
    func badBase(url: String) {
        #expect(throws: UpstreamFaults.self) { try Self.settings(url) }
    }

    @Test(
        "An upstream's base URL is valid → its prefix and its authority are read in a normalised form",
        arguments: [
            ("https://API.Example.com", "https://api.example.com", "api.example.com"),
            ("https://a:443/", "https://a", "a"), ("https://a:8443/v1/", "https://a:8443/v1", "a:8443"),
            ("http://localhost:9000/x", "http://localhost:9000/x", "localhost:9000"),
            ("http://127.0.0.1", "http://127.0.0.1", "127.0.0.1"), ("http://[::1]:81", "http://[::1]:81", "[::1]:81"),
            ("HTTPS://a/%41", "https://a/A", "a"),
        ])
    func base(url: String, prefix: String, authority: String) throws {
        let settings = try Self.settings(url)
        #expect(settings.base.prefix == prefix)
        #expect(settings.base.authority == authority)
    }

    @Test(
        "An upstream's base URL has https and a private address → refused; with `internal: true` → accepted",
        arguments: ["https://10.0.0.1", "https://[fd00::1]", "https://169.254.169.254", "https://168.63.129.16"])
    func privateAddress(url: String) throws {
        #expect(throws: UpstreamFaults.self) { try Self.settings(url) }
        _ = try Self.settings(url, isInternal: true)
    }

    @Test(
        "An upstream's base URL has http and a public or link-local address → refused, even with `internal: true`",
        arguments: ["http://8.8.8.8", "http://169.254.169.254", "http://[2606:4700::1111]", "http://[fe80::1]"])
    func plainOutside(url: String) {
        #expect(throws: UpstreamFaults.self) { try Self.settings(url, isInternal: true) }
    }

    @Test(
        "An upstream's base URL has http and a private name or address → refused; with `internal: true` → accepted",
        arguments: ["http://orders.shop.svc.cluster.local:8080", "http://10.0.0.1", "http://[fd00::1]"])
    func plainInside(url: String) throws {
        #expect(throws: UpstreamFaults.self) { try Self.settings(url) }
        #expect(try !Self.settings(url, isInternal: true).base.isSecure)
    }

    @Test(
        "An http upstream's name leads to a public address → refused; to a private one → allowed; https → the policy decides"
    )
    func plainConnections() throws {
        let addresses = ["8.8.8.8", "169.254.169.254", "::ffff:1.1.1.1", "10.0.0.1", "127.0.0.1"].map { IPAddress($0) }
        let plain = try Self.settings("http://orders", isInternal: true).base
        #expect((addresses + [nil]).map { plain.allows($0, .any) } == [false, false, false, true, true, false])
        let secure = try Self.settings("https://orders", isInternal: true).base
        #expect((addresses + [nil]).map { secure.allows($0, .any) } == [true, true, true, true, true, true])
        #expect(addresses.map { secure.allows($0, .publicOnly) } == [true, false, true, false, false])
    }

    @Test(
        "`request_headers` lists a field that the relay sets itself, or a malformed name → refused (SEC-75)",
        arguments: [
            "Authorization", "cookie", "Host", "Connection", "Transfer-Encoding", "content-length", "TE", "Upgrade",
            "X-Forwarded-For", "x-forwarded-anything", "Forwarded", "X-Real-IP", "Proxy-Authorization",
            "X-Auth-Subject",
            "Coatcheck-Source", "X-Request-Id", "X-HTTP-Method-Override", "X-Original-URL", "x_custom", "X_Auth", "",
            "a b", "a:b", "é", "a\r\nb", "X-Coatcheck-Session", "Expect",
        ])
    func badHeader(name: String) {
        #expect(throws: UpstreamFaults.self) { try Self.settings(headers: [name]) }
    }

    @Test("An upstream's settings have several faults → all faults are reported together")
    func together() {
        do {
            _ = try Self.settings(
                "http://x", allow: ["nonsense", "GET /a", "get /b"], clients: [], headers: ["Cookie", "X-Fine"],
                timeout: .zero, maximumConcurrent: 0)
            Issue.record("must be refused")
        } catch {
            #expect(
                error.faults.map(\.key) == [
                    "base_url", "allow", "allow", "request_headers", "clients", "timeout", "max_concurrent",
                ])
            #expect(error.faults.allSatisfy { !$0.message.isEmpty })
        }
        #expect(throws: UpstreamFaults.self) { try Self.settings(allow: []) }
    }
}
