import Broker
import BrokerHTTP
import BrokerProviders
import BrokerWire
import Foundation
import Testing
import Yams

@testable import coatcheck

@Suite("Accepted configurations", .timeLimit(.minutes(2)))
struct AcceptanceTests {
    @Test("A configuration with only the required settings → accepted, with the documented defaults")
    func minimal() throws {
        let configuration = try ConfigurationFixture.load(ConfigurationFixture.minimal)
        // The one warning is about the https URL without TLS and without a trusted proxy that ends TLS.
        #expect(configuration.warnings.map(\.path) == ["server.trusted_proxies"])
        #expect(configuration.server.listen.description == "127.0.0.1:8080")
        #expect(configuration.management.listen.description == "127.0.0.1:9090")
        #expect(configuration.server.backendListen == nil)
        #expect(configuration.server.drainDelay == .seconds(2))
        #expect(HTTPConfiguration(configuration, contract: []).limits.connection.idle == .seconds(75))
        #expect(configuration.management.hosts.isEmpty)
        guard case .sqlite("coatcheck.db", nil) = configuration.store else { return #expect(Bool(false), "the store") }
        #expect(configuration.session.cookieName == "__Host-coatcheck")
        #expect(configuration.session.sameSite == .strict)
        #expect(configuration.session.cache == .seconds(5))
        #expect(configuration.session.lifetimes.idle == .seconds(30 * 86_400))
        #expect(configuration.session.lifetimes.absolute == .seconds(90 * 86_400))
        #expect(configuration.limits.http.charges.pending == 100_000)
        #expect(configuration.limits.http.body == 65_536)
        #expect(configuration.limits.http.relayBody == 1 << 30)
        #expect(
            configuration.providers.first?.clients.first?.settings.profile.lifetimes == configuration.session.lifetimes)
    }

    @Test("`public_url` is plain http on loopback → accepted with a warning, and the cookie's name has no prefix")
    func development() throws {
        let text = ConfigurationFixture.minimal.replacingFirst(
            "https://auth.example.com", with: "http://127.0.0.1:8080")
        let configuration = try ConfigurationFixture.load(text)
        #expect(configuration.session.cookieName == "coatcheck")
        #expect(configuration.warnings.contains { $0.message.contains("development only") })
    }

    @Test("A file with `backend_listen`, a backend with `peers`, and `drain_delay: 0s` → accepted without a warning")
    func backendListener() throws {
        let text = ConfigurationFixture.minimal.replacingFirst(
            "public_url: https://auth.example.com",
            with: "public_url: https://auth.example.com\n  backend_listen: \"[::1]:8081\"\n  drain_delay: 0s\n"
                + "  trusted_proxies: [10.0.0.1]"
        ).replacingFirst(
            "providers:\n",
            with: "backends: {traefik: {peers: [10.0.0.1], may: [forward-auth]}}\nmanagement: {hosts: [Ops.internal]}\n"
                + "providers:\n")
        let configuration = try ConfigurationFixture.load(text)
        #expect(configuration.warnings.isEmpty, "\(configuration.warnings)")
        #expect(configuration.server.backendListen?.description == "[::1]:8081")
        #expect(configuration.server.drainDelay == .zero)
        let http = HTTPConfiguration(configuration, contract: [])
        #expect(http.backendListen == "[::1]:8081")
        #expect(http.managementHosts == ["ops.internal"])
    }

    @Test("`keep_alive` above 75s with an empty `trusted_proxies` → a warning; with trusted proxies → no warning")
    func keepAlive() throws {
        let url = "public_url: https://auth.example.com"
        func load(_ more: String) throws -> Configuration {
            try ConfigurationFixture.load(ConfigurationFixture.minimal.replacingFirst(url, with: url + more))
        }
        let kept = try load("\n  keep_alive: 620s\n  trusted_proxies: [10.0.0.1]")
        #expect(kept.warnings.isEmpty)
        #expect(HTTPConfiguration(kept, contract: []).limits.connection.idle == .seconds(620))
        #expect(try load("\n  keep_alive: 76s").warnings.contains { $0.path == "server.keep_alive" })
        #expect(try load("\n  keep_alive: 5s").warnings.map(\.path) == ["server.trusted_proxies"])
    }

    @Test("A backend with an empty `allow` → accepted, but may not ask about any session")
    func emptyAllow() throws {
        let backend =
            "backends: {a: {sha256: 3b1f0d7c5f0a3a9d4b8f6b2f6a8e1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d, "
            + "may: [introspect], allow: []}}\n"
        let text = ConfigurationFixture.minimal.replacingFirst("providers:\n", with: backend + "providers:\n")
        let settings = try ConfigurationFixture.load(text).backends.map(\.settings)
        #expect(settings.count == 1 && settings.first?.allow?.isEmpty == true)
    }

    @Test("A file has backends and no trusted proxies, or `backend_listen` and no backends → a warning")
    func backendWarnings() throws {
        let backend =
            "backends: {a: {sha256: 3b1f0d7c5f0a3a9d4b8f6b2f6a8e1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d, may: [introspect]}}\n"
        let text = ConfigurationFixture.minimal.replacingFirst("providers:\n", with: backend + "providers:\n")
        #expect(
            try ConfigurationFixture.load(text).warnings.map(\.path) == ["server.trusted_proxies"])
        let url = "public_url: https://auth.example.com"
        let listed = text.replacingFirst(url, with: url + "\n  trusted_proxies: [10.0.0.1]")
        #expect(try ConfigurationFixture.load(listed).warnings.isEmpty)
        let open = listed.replacingFirst(url, with: url + "\n  backend_listen: 10.0.0.5:8081")
        #expect(try ConfigurationFixture.load(open).warnings.map(\.path) == ["server.backend_listen"])
        let lonely = ConfigurationFixture.minimal.replacingFirst(url, with: url + "\n  backend_listen: 127.0.0.1:8081")
        #expect(
            try ConfigurationFixture.load(lonely).warnings.map(\.path)
                == ["server.trusted_proxies", "server.backend_listen"])
    }

    @Test("A client secret is written into the file → a warning, except with a loopback `public_url`")
    func inlineSecret() throws {
        let inline = ConfigurationFixture.minimal.replacingFirst(
            "auth: none", with: "client_secret: zQ8vN2kLr5TwX7yB3mHd")
        #expect(
            try ConfigurationFixture.load(inline).warnings.contains { $0.message.contains("written into the file") })
        let local = inline.replacingFirst("https://auth.example.com", with: "http://localhost:8080")
        #expect(
            try !ConfigurationFixture.load(local).warnings.contains { $0.message.contains("written into the file") })
    }

    @Test("A client sets its own `idle` → its sessions have this idle time, and the default for `absolute`")
    func lifetimes() throws {
        let text = ConfigurationFixture.minimal.replacingFirst(
            "auth: none", with: "auth: none\n        session: {idle: 1h 30m}")
        let client = try #require(try ConfigurationFixture.load(text).providers.first?.clients.first?.settings.profile)
        #expect(client.lifetimes.idle == .seconds(5400))
        #expect(client.lifetimes.absolute == .seconds(90 * 86_400))
    }

    @Test("`session: {cache: off}`, with `off` plain or quoted → the cache is off", arguments: ["off", "\"off\""])
    func words(_ word: String) throws {
        let text = ConfigurationFixture.minimal.replacingFirst(
            "providers:\n", with: "session: {cache: \(word)}\nproviders:\n")
        #expect(try ConfigurationFixture.load(text).session.cache == .zero)
    }

    @Test(
        "A client has a secret and no `auth` → the secret is sent in the preset's way; with `auth` → in the configured way"
    )
    func secretPlace() throws {
        for (preset, auth, inBody) in [
            ("facebook", "", true), ("linkedin", "", true), ("google", "", false), ("github", "", false),
            ("facebook", ", auth: client_secret_basic", false), ("google", ", auth: client_secret_post", true),
        ] {
            let text = """
                server: {public_url: "https://auth.example.com"}
                keys: {file: keys.json}
                providers:
                  p:
                    preset: \(preset)
                    clients:
                      web: {client_id: app, client_secret: wq8ZrT5nLk2YvB7xHs0d, redirect_uris: ["https://app.example.com/p"]\(auth)}
                """
            let client = try #require(try ConfigurationFixture.load(text).providers.first?.settings.clients.first)
            if case .clientSecretPost = client.authentication {
                #expect(inBody, "\(preset)")
            } else {
                #expect(!inBody, "\(preset)")
            }
        }
    }

    static var reference: String {
        get throws {
            let path = #filePath.replacingOccurrence(
                "Tests/coatcheckTests/Configuration/AcceptanceTests.swift", "deploy/coatcheck.reference.yaml")
            return try String(contentsOfFile: path, encoding: .utf8)
        }
    }

    @Test(
        "The configuration in deploy/coatcheck.reference.yaml → loads, with all its providers, upstreams and backends")
    func referenceLoads() throws {
        let configuration = try ConfigurationFixture.load(Self.reference)
        #expect(configuration.providers.count == 8)
        #expect(configuration.upstreams.count == 3)
        #expect(configuration.backends.first?.settings.tokens.map(\.grant) == [.refresh, .refresh, .exchange])
    }

    @Test(
        "deploy/coatcheck.reference.yaml → has every key of the decoder, except keys at a client that belong to the provider"
    )
    func referenceIsComplete() throws {
        let context = ConfigContext(sources: ConfigurationFixture.sources)
        let root = try #require(context.compose(try Self.reference))
        var found: Set<String> = []
        func walk(_ section: ConfigSection) {
            for key in section.keys {
                let pattern = section.pattern.isEmpty ? key : "\(section.pattern).\(key)"
                found.insert(pattern)
                let isNamed = [
                    "providers", "upstreams", "backends", "providers.*.clients", "providers.*.clients.*.children",
                ].contains(pattern)
                if isNamed { for child in section.named(key) { walk(child.section) } }
                guard !isNamed, let node = section.node(key)?.node else { continue }
                if node.mapping != nil { walk(section.section(key)) }
                if node.sequence?.first?.mapping != nil { for child in section.list(key) { walk(child) } }
            }
        }
        walk(ConfigSection(root, path: "", pattern: "", line: 1, context: context))
        let known = Configuration.knownKeys()
        #expect(known.count > 100)
        let misplaced = Set(ServerKeysTests.known(below: "providers.*.clients.*."))
        let missing = known.subtracting(found).filter { key in
            !misplaced.contains { $0 == key || $0.hasPrefix(key + ".") || $0.hasPrefix(key + "[]") }
        }
        #expect(missing.sorted() == [])
        #expect(found.intersection(misplaced).sorted() == [])
    }
}
