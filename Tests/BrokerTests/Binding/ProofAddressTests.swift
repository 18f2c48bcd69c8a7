import Testing

@testable import Broker

@Suite("Addresses of proofs", .timeLimit(.minutes(1)))
struct ProofAddressTests {
    @Test(
        "An address that RFC 3986 treats as equal to `https://b.test/a/b` → has the same origin and path after parsing (W5)",
        arguments: [
            "https://b.test/a/b", "HTTPS://B.test/a/b", "https://b.test:443/a/b", "https://b.test:/a/b",
            "https://b.test/a/b?q=1",
            "https://b.test/a/b#f", "https://b.test/%61/b", "https://b.test/a/./b", "https://b.test/x/../a/b",
            "https://b.test/../a/b", "https://b.test/a/b?x=/../..",
        ])
    func same(_ text: String) throws {
        let address = try #require(ProofAddress(text))
        #expect(address.origin == "https://b.test" && address.path == "/a/b")
    }

    @Test(
        "An address that RFC 3986 treats as different from `https://b.test/a/b` → has another origin or path",
        arguments: [
            "http://b.test/a/b", "https://b.test:444/a/b", "https://c.test/a/b", "https://b.test/a/b/",
            "https://b.test/a//b",
            "https://b.test/A/b", "https://b.test/a%2Fb", "https://b.test./a/b", "https://b.test/a/b/.",
            "https://b.test/a;/b",
            "https://b.test:80/a/b",
        ])
    func different(_ text: String) throws {
        let address = try #require(ProofAddress(text))
        #expect(address.origin != "https://b.test" || address.path != "/a/b")
    }

    @Test(
        "Text that is not an absolute HTTP address → `ProofAddress` is nil",
        arguments: [
            "", "/a/b", "//b.test/a/b", "https:/b.test/a", "https:b.test", "ftp://b.test/a", "https://", "https:///a",
            "https://u@b.test/a", "https://u:p@b.test/a", "https://b.test:123456/a", "https://b.test:x/a",
            "https://b.test/%zz",
            "https://b.test/%4", "https://b.test/a b", "https://b.tést/a", "https://%62.test/a", "https://[::1/a",
            "https://[::1]x/a", "https://b.test\u{7F}/a",
        ])
    func none(_ text: String) { #expect(ProofAddress(text) == nil) }

    @Test("A path has escapes → unreserved characters are decoded; reserved ones stay escaped, with upper-case digits")
    func escapes() {
        #expect(ProofAddress.normalizedPath("/%7euser/%2f%C3%a9".utf8) == "/~user/%2F%C3%A9")
        #expect(ProofAddress.normalizedPath("".utf8) == "/")
        #expect(ProofAddress.normalizedPath("/a/..".utf8) == "/")
        #expect(ProofAddress.normalizedPath("/a/b/..".utf8) == "/a/")
        #expect(ProofAddress.normalizedPath("/%2e%2E/a".utf8) == "/a")
    }

    @Test("An address has an IPv6 host → its port is found after the brackets")
    func literals() {
        #expect(ProofAddress("http://[::1]:8080/")?.origin == "http://[::1]:8080")
        #expect(ProofAddress("http://[::1]/")?.origin == "http://[::1]")
        #expect(ProofAddress("http://127.0.0.1:0080/")?.origin == "http://127.0.0.1")
    }

    @Test(
        "A proof names the broker by one of its `hosts` → the address is the broker's; another name, port or scheme → it is not",
        arguments: [
            ("https://auth.example.com", true), ("https://login.example.com", true), ("https://10.0.0.1:8443", true),
            ("https://LOGIN.example.com:443", true), ("http://login.example.com", false),
            ("https://login.example.com:8443", false), ("https://10.0.0.1", false), ("https://evil.example.com", false),
        ])
    func hosts(origin: String, isOwn: Bool) throws {
        let origins = ProofOrigins(
            publicURL: "https://auth.example.com", hosts: ["login.example.com", "10.0.0.1:8443"])
        #expect(origins.contains(try #require(ProofAddress(origin + "/v1/session"))) == isOwn)
    }
}
