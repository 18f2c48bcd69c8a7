import Broker
import Foundation
import Testing

@testable import coatcheck

@Suite("The messages of `check`", .timeLimit(.minutes(1)))
struct CheckWordsTests {
    private static let url = "public_url: https://auth.example.com"
    private static let redirect = "redirect_uris: [\"com.example.app:/oauth2redirect\"]"

    private static func minimal(_ part: String, _ other: String, more: String = "") -> String {
        ConfigurationFixture.minimal.replacingFirst(part, with: other) + more
    }

    private static func errors(_ text: String) -> [String] { ConfigurationFixture.errors(text).map(\.description) }

    /// Writes bytes into a file, loads it, and returns the messages without the file's path.
    private static func load(_ bytes: [UInt8]) throws -> String {
        let path = NSTemporaryDirectory() + "coatcheck-" + UUID().uuidString + ".yaml"
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        return said(path)
    }

    private static func said(_ path: String) -> String {
        do throws(ConfigurationFailure) {
            _ = try Configuration.load(path: path)
            return ""
        } catch { return "\(error)".replacingOccurrences(of: path, with: "FILE") }
    }

    @Test("A missing, empty, oversized or unreadable file → each has a different message")
    func files() throws {
        #expect(try Self.load([]) == "error: FILE: is empty")
        #expect(try Self.load(Array("# nothing\n\n".utf8)).contains("has no settings, only blank lines and comments"))
        #expect(try Self.load([UInt8](repeating: 0x20, count: (1 << 20) + 1)) == "error: FILE: has more than 1MiB")
        #expect(try Self.load([0xFF, 0xFE, 0x61, 0]) == "error: FILE: is UTF-16: it has to be UTF-8")
        #expect(try Self.load([0x61, 0x3A, 0xFF]) == "error: FILE: is not UTF-8")
        #expect(Self.said("/nonexistent/coatcheck.yaml") == "error: FILE: does not exist")
        #expect(Self.said(NSTemporaryDirectory()) == "error: FILE: is a folder")
        #expect(Self.said("-").contains("does not exist: standard input is `/dev/stdin`"))
    }

    @Test(
        "`check` of a client with `binding` mode `observe` or `enforce` → one line about the effect; mode `off` → no line"
    )
    func binding() throws {
        func lines(_ binding: String) throws -> [String] {
            BindingWords.lines(
                try ConfigurationFixture.load(
                    Self.minimal(Self.redirect, Self.redirect + "\n        binding: " + binding)))
        }
        #expect(try lines("{mode: off}").isEmpty)
        let observed = try lines("{mode: observe}")
        #expect(
            observed.count == 1
                && observed[0].hasPrefix("providers.example.clients.ios.binding: observe: refuses nobody"))
        #expect(try lines("{mode: enforce, pass: 2m}")[0].contains("need a pass of 120 s, which a proof"))
        #expect(
            try lines("{mode: enforce, evidence: proof}")[0].contains(
                "need a proof by the device's key with each request"))
    }

    @Test("A configuration file begins with a byte order mark → the mark is ignored")
    func byteOrderMark() throws {
        let said = try Self.load([0xEF, 0xBB, 0xBF] + Array(ConfigurationFixture.minimal.utf8))
        // The only error is that the test's key file does not exist.
        #expect(said.split(separator: "\n").count(where: { $0.hasPrefix("error") }) == 1 && said.contains("keys.file"))
    }

    @Test("A secret's variable or file is missing → the message names it, unless the name could be the secret itself")
    func secrets() {
        func said(_ reference: String) -> String {
            Self.errors(Self.minimal("auth: none", "client_secret: \(reference)")).joined()
        }
        #expect(said("{env: NO_SUCH_SECRET}").contains("names an environment variable that is not set: NO_SUCH_SECRET"))
        #expect(
            said("{file: no/such.secret}").contains("names a file that cannot be read: no/such.secret does not exist"))
        let mistaken = said("{env: zQ8vN2kLr5TwX7yB3mHd}")
        #expect(mistaken.contains("is not set") && !mistaken.contains("zQ8vN2kLr5TwX7yB3mHd"))
        #expect(
            Self.errors(Self.minimal("file: keys.json", "file: other.json")).joined().contains(
                "other.json does not exist; `coatcheck keys generate --file` makes one"))
    }

    @Test(
        "A kind, preset, setting or issuer that is nearly right → the message suggests the right one",
        arguments: [
            ("kind: oidc", "kind: oidcc", "did you mean `oidc`?"),
            ("kind: oidc", "kind: google", "is no kind: write `preset: google`"),
            ("kind: oidc", "preset: gogle", "did you mean `google`?"),
            ("kind: oidc", "preset: oidc", "is no preset: write `kind: oidc`"),
            ("kind: oidc", "preset: okta", "any other service is `kind: oidc` with its `issuer`"),
            ("auth: none", "auth: nome", "did you mean `none`?"),
            ("auth: none", "auth: none\n        transport: cokie", "did you mean `cookie`?"),
            (
                "issuer: https://id.example.com", "issuer: https://id.example.com/.well-known/openid-configuration",
                "the issuer is what stands before `/.well-known/`"
            ),
        ])
    func near(_ part: String, _ other: String, _ words: String) {
        let said = Self.errors(Self.minimal(part, other))
        #expect(said.contains { $0.contains(words) }, "\(said)")
    }

    @Test(
        "An upstream or backend misspells a provider, client or permission → the message suggests the right name",
        arguments: [
            (
                "\nupstreams: {api: {base_url: \"https://api.example.com\", provider: exampel, allow: [\"GET /\"]}}",
                "upstreams.api.provider: names a provider that is not configured; did you mean `example`?"
            ),
            (
                "\nupstreams: {api: {base_url: \"https://api.example.com\", provider: example, clients: [ioss], allow: [\"GET /\"]}}",
                "upstreams.api.clients: names a client that `example` does not have; did you mean `ios`?"
            ),
            ("\nbackends: {a: {peers: [10.0.0.1], may: [introspekt]}}", "did you mean `introspect`?"),
        ])
    func references(_ more: String, _ words: String) {
        let said = Self.errors(ConfigurationFixture.minimal + more)
        #expect(said.contains { $0.contains(words) }, "\(said)")
    }

    @Test("A file has one mistake → one error, and no error about settings that refer to the faulty setting")
    func noFollowOn() {
        #expect(Self.errors(Self.minimal("public_url:", "publc_url:")).count == 1)
        let upstream =
            "\nupstreams: {api: {base_url: \"https://api.example.com\", provider: example, allow: [\"GET /\"]}}"
        // The provider of the upstream exists, but its settings are faulty. Only these settings are reported, and not the
        // upstream.
        #expect(Self.errors(Self.minimal("kind: oidc", "kind: oidcc", more: upstream)).count == 1)
        let clover = Self.minimal(
            "kind: oidc\n    issuer: https://id.example.com",
            "kind: clover\n    environment: prod\n    site_url: https://app.example.com", more: upstream)
        #expect(Self.errors(clover).filter { $0.contains("upstreams") }.isEmpty)
    }

    @Test("A file has a key twice → one error, at the line of the second occurrence")
    func twice() {
        let text = ConfigurationFixture.minimal + "\nserver:\n  hosts: []\n"
        let said = Self.errors(text)
        let line = text.split(separator: "\n", omittingEmptySubsequences: false).lastIndex(of: "server:").map { $0 + 1 }
        #expect(said == ["error: line \(line ?? 0): names a key twice: server"])
    }

    @Test("`public_url` is https, and the file has neither trusted proxies nor `server.tls` → a warning")
    func proxies() throws {
        func warnings(_ text: String) throws -> [String] { try ConfigurationFixture.load(text).warnings.map(\.path) }
        #expect(try warnings(ConfigurationFixture.minimal) == ["server.trusted_proxies"])
        #expect(try warnings(Self.minimal(Self.url, Self.url + "\n  trusted_proxies: [127.0.0.1]")).isEmpty)
        #expect(
            try warnings(Self.minimal(Self.url, Self.url + "\n  tls: {certificate: fullchain.pem, key: privkey.pem}"))
                .isEmpty)
    }

    @Test(
        "A trusted proxy is malformed → one error, and no warning of an empty list; a redirect URI is a pattern → a warning"
    )
    func followOns() throws {
        let named = Self.minimal(Self.url, Self.url + "\n  trusted_proxies: [proxy.example.com]")
        let said: [String]
        do throws(ConfigurationFailure) {
            _ = try ConfigurationFixture.load(named)
            said = []
        } catch { said = error.problems.filter { $0.path == "server.trusted_proxies" }.map(\.message) }
        #expect(said.count == 1 && said.first?.contains("IP addresses") == true, "\(said)")
        let text = ConfigurationFixture.minimal
        let uri = try #require(text.firstMatch(of: /redirect_uris: \["([^"]+)"/)).output.1
        let pattern = text.replacingFirst(String(uri), with: "https://app.example.com/*")
        let warnings = try ConfigurationFixture.load(pattern).warnings.filter { $0.path.hasSuffix("redirect_uris") }
        #expect(warnings.count == 1 && warnings.first?.message.contains("byte for byte") == true)
    }

    @Test(
        "`public_url` is http, or the certificate in `server.tls` has expired or is for another host → `check` reports the fault"
    )
    func certificates() throws {
        let tls = "\n  tls: {certificate: fullchain.pem, key: privkey.pem}"
        func said(_ other: String, at seconds: Int64 = 1_795_400_000) -> [String] {
            var sources = ConfigurationFixture.sources
            sources.now = { .init(seconds: seconds) }
            do throws(ConfigurationFailure) {
                return try Configuration.load(text: Self.minimal(Self.url, other), sources: sources)
                    .warnings.map(\.description)
            } catch { return error.problems.map(\.description) }
        }
        #expect(said(Self.url + tls).isEmpty)
        #expect(
            said("public_url: https://auth.example.org" + tls).contains {
                $0.contains("not for the host of `public_url`")
            })
        #expect(said("public_url: http://127.0.0.1:8080" + tls).contains { $0.contains("server.tls: needs an https") })
        #expect(said(Self.url + tls, at: 4_948_000_000).contains { $0.contains("runs out on 2126-10-29T15:31:42Z") })
        #expect(said(Self.url + tls, at: 4_949_000_000).contains { $0.contains("has run out (2126-10-29T15:31:42Z)") })
        #expect(
            said(Self.url + "\n  tls: {certificate: privkey.pem, key: privkey.pem}").contains {
                $0.contains("server.tls.certificate: names a file that holds no certificate in PEM")
            })
        #expect(said(Self.url + "\n  tls: {certificate: fullchain.pem}").contains { $0.contains("needs `key`") })
    }
}
