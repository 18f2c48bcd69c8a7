import Broker
import BrokerRelay
import NIOCore
import Testing

@Suite("Upstream settings (SEC-71, SEC-72, SEC-74)")
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
        "A base URL that is not plainly https is refused",
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
        "A base URL is parsed once",
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
        "A private address is refused unless the upstream is internal",
        arguments: ["https://10.0.0.1", "https://[fd00::1]", "https://169.254.169.254"])
    func privateAddress(url: String) throws {
        #expect(throws: UpstreamFaults.self) { try Self.settings(url) }
        _ = try Self.settings(url, isInternal: true)
    }

    @Test(
        "A header that is the relay's cannot be configured (SEC-75)",
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

    @Test("All faults are told together")
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

    @Test(
        "Addresses that are not public are never called (SEC-74)",
        arguments: [
            "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.1",
            "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
            "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::7f00:1",
            "fe80::1", "fc00::1", "fd00::1", "fec0::1", "ff02::1", "100::1", "2001:db8::1", "2001::1", "2002:7f00:1::",
            "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "3fff::1",
        ])
    func notPublic(text: String) throws {
        let address = try SocketAddress(ipAddress: text, port: 443)
        #expect(!AddressPolicy.publicOnly.allows(address))
        #expect(AddressPolicy.any.allows(address))
    }

    @Test(
        "Public addresses are",
        arguments: ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::808:808"])
    func isPublic(text: String) throws {
        let address = try SocketAddress(ipAddress: text, port: 443)
        #expect(AddressPolicy.publicOnly.allows(address))
        #expect(!AddressPolicy.loopbackOnly.allows(address))
    }

    @Test("No address, no call")
    func noAddress() throws {
        #expect(!AddressPolicy.publicOnly.allows(nil))
        #expect(!AddressPolicy.loopbackOnly.allows(nil))
        #expect(!AddressPolicy.publicOnly.allows(try SocketAddress(unixDomainSocketPath: "/tmp/x")))
        #expect(AddressPolicy.loopbackOnly.allows(try SocketAddress(ipAddress: "::1", port: 1)))
    }
}
