import BrokerProviders
import Foundation
import Testing

@testable import coatcheck

@Suite("Settings that belong only to the provider (decision 94)", .timeLimit(.minutes(1)))
struct ServerKeysTests {
    /// A value for each key of the provider, which differs from the key's default.
    ///
    /// Values that are read as a set have one element, so that the descriptions of two sets are equal.
    private static let values = [
        "assertion.typ": "JWT", "basic_encoding": "raw", "dpop.nonce_age": "2m", "dpop.nonce_before_spending": "true",
        "dpop.par": "thumbprint", "id_token.issuer": "https://sdk.example.com",
        "id_token.issuer_template": "\"https://id.example.com/{tenantid}\"", "id_token.leeway": "30s",
        "identity.subject": "/id", "revocation.bearer_fallback": "true", "revocation.hint": "false",
        "revocation.reaches": "user", "scope_separator": "\",\"", "tls.ca_file": "company-ca.pem",
        "token_request.encoding": "json", "token_request.idempotency_key": "true",
        "token_request.rename": "{client_id: app_id}",
        "token_response.dead_grants":
            "[{at: /status, values: [EXPIRED], statuses: [400]}, {at: /state, values: [GONE], statuses: [400]}]",
        "token_response.expires_field": "ends", "token_response.expires_unit": "epoch_seconds",
        "token_response.invalid_grant_codes": "[bad_refresh_token]", "token_response.refresh_expires_field": "ends",
        "token_response.scope.separator": "comma", "token_response.scope.when_absent": "unknown",
    ]

    /// Returns a key with its value from `values`, as an entry of a flow mapping.
    private static func line(_ key: String) -> String {
        let steps = key.split(separator: ".").map(String.init)
        let value = values[key] ?? ""
        return steps.dropLast().reduce("") { $0 + "\($1): {" } + "\(steps.last ?? ""): \(value)"
            + String(repeating: "}", count: steps.count - 1)
    }

    /// Returns a file with the given settings of a provider, and of its two clients in lines 12 and 14.
    private static func file(provider: String = "display_name: P", client: String, second: String = "login: broker")
        -> String
    {
        """
        server:
          public_url: https://auth.example.com
          trusted_proxies: [10.0.0.1]
        keys: {file: keys.json}
        providers:
          p:
            kind: oidc
            issuer: https://id.example.com
            \(provider)
            clients:
              web: {client_id: app, auth: none, redirect_uris: ["https://app.example.com/p"],
                \(client)}
              ios: {client_id: app-2, auth: none, redirect_uris: ["com.example.app:/p"],
                \(second)}
        """
    }

    private static func warnings(_ text: String) throws -> [String] {
        try ConfigurationFixture.load(text).warnings.map(\.description)
    }

    private static func warning(_ client: String, _ key: String, line: Int) -> String {
        "warning: line \(line): providers.p.clients.\(client).\(key): belongs to the provider, at "
            + "`providers.p.\(key)`; from 0.3 on it is refused on a client"
    }

    @Test(
        "A client has a setting that belongs to the provider → one warning, with the setting's line and its right place"
    )
    func onClient() throws {
        #expect(Set(Self.values.keys) == Set(ServerKeys.all))
        for key in ServerKeys.all {
            let found = try Self.warnings(Self.file(client: Self.line(key)))
            #expect(found == [Self.warning("web", key, line: 12)], "\(key)")
        }
    }

    @Test(
        "A provider's setting moves from its client to the provider → no warning, and the client has the same value"
    )
    func onProvider() throws {
        for key in ServerKeys.all {
            let moved = try ConfigurationFixture.load(Self.file(provider: Self.line(key), client: "login: broker"))
            #expect(moved.warnings.isEmpty, "\(key): \(moved.warnings)")
            let old = try ConfigurationFixture.load(Self.file(client: Self.line(key)))
            let plain = try ConfigurationFixture.load(Self.file(client: "login: broker"))
            func wire(_ configuration: Configuration) -> [String] {
                configuration.providers.flatMap(\.clients).map { "\($0.settings.wire)" }
            }
            #expect(wire(old)[0] != wire(plain)[0], "\(key) has no effect")
            #expect(wire(old)[0] == wire(moved)[0] && wire(old)[1] == wire(plain)[1], "\(key)")
        }
    }

    @Test(
        "Two clients have a provider's settings, even by merging or with a profile → one warning for each client and setting"
    )
    func once() throws {
        let both = try Self.warnings(
            Self.file(client: "scope_separator: \",\", id_token: {leeway: 30s}", second: "scope_separator: \" \""))
        #expect(
            both == [
                Self.warning("web", "id_token.leeway", line: 12), Self.warning("web", "scope_separator", line: 12),
                Self.warning("ios", "scope_separator", line: 14),
            ])
        let shared = try Self.warnings(
            "x-part: &part {basic_encoding: raw}\n" + Self.file(client: "<<: *part", second: "<<: *part"))
        #expect(
            shared == [
                Self.warning("ios", "basic_encoding", line: 1), Self.warning("web", "basic_encoding", line: 1),
            ])
        let profile = """
            server: {public_url: "https://auth.example.com", trusted_proxies: [10.0.0.1]}
            keys: {file: keys.json}
            providers:
              p:
                kind: oidc
                issuer: https://id.example.com
                profile: fapi2
                clients:
                  web: {client_id: app, private_key: {file: service-key.pem}, redirect_uris: ["https://app.example.com/p"], id_token: {leeway: 30s}}
            """
        #expect(ConfigurationFixture.problems(profile).count { $0.path.hasSuffix("leeway") } == 1)
    }

    @Test(
        "A client has a provider's setting with a faulty value, or the client is Zephr's → an error for this setting"
    )
    func faulty() {
        for (value, words) in [("identity: {subject: id}", "JSON pointer"), ("identity: {subject: }", "has no value")] {
            let errors = ConfigurationFixture.errors(Self.file(client: value))
            #expect(errors.map(\.path) == ["providers.p.clients.web.identity.subject"], "\(errors)")
            #expect(errors.first?.message.contains(words) == true, "\(errors)")
        }
        let zephr = """
            server: {public_url: "https://auth.example.com", trusted_proxies: [10.0.0.1]}
            keys: {file: keys.json}
            providers:
              p:
                kind: zephr
                base_url: https://news.example.org
                social_providers: [google]
                required_attributes: []
                clients:
                  ios: {platform: ios, redirect_uris: ["com.example.app:/p"], identity: {subject: /id}}
            """
        let problems = ConfigurationFixture.problems(zephr)
        #expect(problems.map(\.path) == ["providers.p.clients.ios.identity"], "\(problems)")
        #expect(problems.first?.severity == .error)
    }

    @Test(
        "The list of settings that belong to the provider → sorted, each once, and the decoder knows all of them at both places"
    )
    func table() {
        #expect(ServerKeys.all == ServerKeys.all.sorted() && Set(ServerKeys.all).count == ServerKeys.all.count)
        #expect(Self.known(below: "providers.*.").count == 26)
        #expect(Self.known(below: "providers.*.").count == Self.known(below: "providers.*.clients.*.").count)
    }

    /// Returns the keys below a pattern that the decoder knows and that `ServerKeys` lists.
    ///
    /// For a list, these are the keys of the list's entries.
    static func known(below pattern: String) -> [String] {
        Configuration.knownKeys().filter { key in
            ServerKeys.all.contains { name in
                let isList = name == "token_response.dead_grants"
                return isList ? key.hasPrefix("\(pattern)\(name)[]") : key == pattern + name
            }
        }
    }

    // MARK: The repository's own files

    private static let root = #filePath.replacingOccurrence(
        "Tests/coatcheckTests/Configuration/ServerKeysTests.swift", "")

    @Test("The reference page marks settings as the provider's → exactly those in the code's list")
    func marked() throws {
        let page = try String(contentsOfFile: Self.root + "docs/reference/configuration.md", encoding: .utf8)
        let rows = page.split(separator: "\n").compactMap { line -> String? in
            guard line.hasPrefix("|"), let end = line.range(of: "` † |") else { return nil }
            let key = line[..<end.lowerBound].split(separator: "`").last ?? ""
            // Three rows describe keys in the entries of a list. Their list's name is the part before the bracket.
            return String(key.prefix { $0 != "[" })
        }
        #expect(Set(rows).sorted() == ServerKeys.all && rows.count == 26)
    }

    @Test("Any configuration file in the repository → has the provider's settings at the provider only")
    func examples() throws {
        var count = 0
        for folder in ["deploy", "Benchmarks", "Tests/scenarios/support"] {
            for name in try FileManager.default.subpathsOfDirectory(atPath: Self.root + folder).sorted()
            where name.hasSuffix(".yaml") {
                let text = try String(contentsOfFile: "\(Self.root)\(folder)/\(name)", encoding: .utf8)
                guard text.contains("\nproviders:\n"), text.contains("server:") else { continue }
                count += 1
                // Templates have placeholders such as @BROKER@, which need a port or an address here.
                let whole = text.replacing(#/@[A-Z_]+_PORT@/#, with: "8080").replacing(
                    #/@[A-Z_0-9]+@/#, with: "http://127.0.0.1:8080")
                let problems = ConfigurationFixture.problems(whole)
                #expect(!problems.contains { $0.message.contains("is not YAML") }, "\(name): \(problems)")
                #expect(problems.filter { $0.message.contains("belongs to the provider, at") } == [], "\(name)")
            }
        }
        #expect(count >= 8)
    }
}
