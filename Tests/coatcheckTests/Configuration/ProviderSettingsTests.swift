import Broker
import BrokerProviders
import Foundation
import Testing

@testable import coatcheck

@Suite("Configured providers", .timeLimit(.minutes(2)))
struct ProviderSettingsTests {
    private func load(_ provider: String, client: String = "client_id: app, auth: none") throws -> ProviderSection {
        let text = """
            server: {public_url: "https://auth.example.com"}
            keys: {file: keys.json}
            providers:
              p:
            \(provider.split(separator: "\n").map { "    \($0)" }.joined(separator: "\n"))
                clients:
                  web: {redirect_uris: ["https://app.example.com/p"], \(client)}
            """
        return try #require(try ConfigurationFixture.load(text).providers.first)
    }

    @Test("An OpenID client has any scope → its logins use a nonce, unless `nonce: off` is set (SEC-30)")
    func nonce() throws {
        for (scope, nonce) in [("openid email", "on"), ("email", "on"), ("email, nonce: off", "off")] {
            let provider = try load(
                "kind: oidc\nissuer: https://id.example.com", client: "client_id: app, auth: none, scope: \(scope)")
            #expect(provider.settings.clients.map(\.profile.nonce) == [nonce == "on"], "\(scope)")
        }
    }

    // MARK: The issuer in callbacks

    /// The settings of each preset and kind, with the `iss` that the vendor publishes for callbacks.
    ///
    /// `iss` is nil if the vendor publishes none.
    private static let issuers: [(settings: String, iss: String?)] = [
        ("preset: google", "https://accounts.google.com"),
        (
            "preset: apple\napple: {team_id: TEAM000001, key_id: KEY0000001, key: {file: apple-key.p8}}",
            "https://appleid.apple.com"
        ),
        ("preset: github", "https://github.com/login/oauth"),
        ("preset: microsoft", "https://login.microsoftonline.com/11111111-2222-4333-8444-555555555555/v2.0"),
        (
            "preset: microsoft\nissuer: https://login.microsoftonline.com/11111111-2222-4333-8444-555555555555/v2.0",
            "https://login.microsoftonline.com/11111111-2222-4333-8444-555555555555/v2.0"
        ),
        ("preset: linkedin", "https://www.linkedin.com/oauth"), ("preset: slack", nil), ("preset: facebook", nil),
        ("preset: cloudentity\nissuer: https://t.eu.authz.cloudentity.io/t/w", "https://t.eu.authz.cloudentity.io/t/w"),
        ("kind: oidc\nissuer: https://id.example.com", "https://id.example.com"),
        (
            "kind: oauth2\nendpoints: {authorization: \"https://a.example/a\", token: \"https://a.example/t\", userinfo: \"https://a.example/u\"}",
            nil
        ),
        (
            "kind: oauth2\ncallback_issuer: https://a.example\nendpoints: {authorization: \"https://a.example/a\", token: \"https://a.example/t\", userinfo: \"https://a.example/u\"}",
            "https://a.example"
        ),
        (
            "kind: oidc\nissuer: https://id.example.com\ncallback_issuer: \"https://id.example.com/{tenant}/x\"",
            "https://id.example.com/acme/x"
        ),
        ("preset: github\nendpoints: {authorization: \"https://ghe.example/login/oauth/authorize\"}", nil),
        ("preset: github\nendpoints: {token: \"https://github.com/other\"}", "https://github.com/login/oauth"),
        ("kind: clover\nenvironment: us\nsite_url: https://app.example.com", nil),
    ]

    @Test(
        "A provider has any preset or kind → the broker expects exactly the callback issuer that its vendor publishes")
    func issuers() throws {
        for (settings, iss) in Self.issuers {
            let section = try load(
                settings,
                client: settings.contains("preset: apple")
                    ? "client_id: app" : "client_id: app, client_secret: wq8ZrT5nLk2YvB7xHs0d")
            let known = section.settings.profile.callbackIssuer
            guard let iss else {
                #expect(known == nil, "\(settings)")
                continue
            }
            let pattern = try #require(known, "\(settings)")
            #expect(IssuerExpectation.matches(iss, pattern), "\(settings)")
            for other in [iss + "/", iss + "x", "https://evil.example", ""] {
                #expect(!IssuerExpectation.matches(other, pattern), "\(settings): \(other)")
            }
        }
        // GitHub's subjects are stored in the namespace of the provider's name, `p`. The `iss` of GitHub's callbacks is not
        // their namespace.
        #expect(try load("preset: github").settings.profile.issuer == "p")
    }

    @Test(
        "`callback_issuer` that is not a URL, has a query, or has more than one template segment → refused",
        arguments: ["nonsense", "https://a.example/{a}/{b}", "https://a.example/{}", "https://a.example/?x"])
    func badIssuers(_ issuer: String) {
        #expect(throws: ConfigurationFailure.self) {
            try load("preset: github\ncallback_issuer: \"\(issuer)\"")
        }
    }

    // MARK: Clients

    private static let secret32 = "wq8ZrT5nLk2YvB7xHs0dPq4mJc6t9RfA"
    private static let oidc = "kind: oidc\nissuer: https://id.example.com"

    @Test(
        "`client_secret_jwt` has a secret below 32 bytes → refused; a Basic secret has reserved characters → a warning"
    )
    func secrets() throws {
        let signing = try load(
            Self.oidc, client: "client_id: app, auth: client_secret_jwt, client_secret: \(Self.secret32)")
        guard case .clientSecretJWT? = signing.settings.clients.first?.authentication else {
            return #expect(Bool(false))
        }
        #expect(throws: ConfigurationFailure.self) {
            try load(Self.oidc, client: "client_id: app, auth: client_secret_jwt, client_secret: wq8ZrT5nLk2YvB7xHs0d")
        }
        _ = try load(Self.oidc, client: "client_id: app, client_secret: \"wq8ZrT5nLk2 YvB7xHs0d\"")
        let warned = ConfigurationFixture.minimal.replacingFirst(
            "auth: none", with: "client_secret: \"wq8ZrT5nLk2+YvB7xHs0d\"")
        #expect(ConfigurationFixture.problems(warned).contains { $0.message.contains("basic_encoding: raw") })
        let raw = warned.replacingFirst("redirect_uris", with: "basic_encoding: raw\n        redirect_uris")
        #expect(!ConfigurationFixture.problems(raw).contains { $0.message.contains("basic_encoding: raw") })
    }

    @Test(
        "A client has settings for an assertion → read; an http audience, or the preset microsoft without a certificate → refused"
    )
    func assertions() throws {
        let key = "client_id: app, auth: private_key_jwt, private_key: {file: service-key.pem}"
        let section = try load(
            Self.oidc,
            client: key
                + ", assertion: {audience: token_endpoint, typ: JWT, key_header: \"x5t#S256\", certificate: {file: service-cert.pem}}"
        )
        let assertion = try #require(section.settings.clients.first).wire.assertion
        #expect(
            assertion.audience == .tokenEndpoint && assertion.type == "JWT" && assertion.thumbprint?.utf8.count == 43)
        let called = try load(Self.oidc, client: key + ", assertion: {audience: endpoint}")
        #expect(called.settings.clients.first?.wire.assertion.audience == .endpoint)
        #expect(throws: ConfigurationFailure.self) { try load("preset: microsoft", client: key) }
        #expect(throws: ConfigurationFailure.self) {
            try load(Self.oidc, client: key + ", assertion: {audience: \"http://a.example\"}")
        }
        let microsoft = try load(
            "preset: microsoft", client: key + ", assertion: {certificate: {file: service-cert.pem}}")
        guard case .privateKeyJWT(let signing)? = microsoft.settings.clients.first?.authentication else {
            return #expect(Bool(false))
        }
        #expect(signing.algorithm == .ps256)
    }

    @Test(
        "A signing key has the algorithm EdDSA or Ed25519 → accepted, and its name is kept as written; another spelling → refused"
    )
    func algorithmNames() throws {
        for (written, name) in [(", algorithm: Ed25519", "Ed25519"), (", algorithm: EdDSA", "EdDSA"), ("", nil)] {
            let loaded = try load(
                Self.oidc,
                client: "client_id: app, auth: private_key_jwt, private_key: {file: service-key.pem\(written)}")
            guard case .privateKeyJWT(let key)? = loaded.settings.clients.first?.authentication else {
                return #expect(Bool(false))
            }
            #expect(key.algorithmName == name && key.algorithm == (name == nil ? .es256 : .edDSA))
        }
        for word in ["ed25519", "Ed448", "eddsa"] {
            #expect(throws: ConfigurationFailure.self, "\(word)") {
                try load(
                    Self.oidc,
                    client:
                        "client_id: app, auth: private_key_jwt, private_key: {file: service-key.pem, algorithm: \(word)}"
                )
            }
        }
    }

    @Test("Two providers use one signing key → refused, unless each assertion's audience is the provider's issuer")
    func sharedKeys() throws {
        func text(_ audience: String) -> String {
            let client =
                "{client_id: NAME, auth: private_key_jwt, private_key: {file: service-key.pem}, assertion: {audience: \(audience)}"
            return """
                server: {public_url: "https://auth.example.com"}
                keys: {file: keys.json}
                providers:
                  a: {kind: oidc, issuer: "https://a.example", clients: {x: \(client), redirect_uris: ["com.example.a:/cb"]}}}
                  b: {kind: oidc, issuer: "https://b.example", clients: {x: \(client), redirect_uris: ["com.example.b:/cb"]}}}
                """
        }
        #expect(ConfigurationFixture.errors(text("issuer")).isEmpty)
        #expect(ConfigurationFixture.errors(text("token_endpoint")).count == 2)
        #expect(ConfigurationFixture.errors(text("endpoint")).count == 2)
    }

    @Test("A Clever client sets no `pkce` → no PKCE; a Clover provider sets no `own` → a session manages only itself")
    func defaults() throws {
        let clever = try load(
            "kind: clever", client: "client_id: app, auth: blank_secret_basic, app_start: {sdk_version: \"2\"}")
        #expect(clever.settings.clients.first?.profile.pkce == .unsupported)
        #expect(clever.settings.clients.first?.appStart == "2")
        let clover = "kind: clover\nenvironment: us\nsite_url: https://app.example.com"
        #expect(try load(clover).settings.profile.own == .device)
        #expect(try load(clover + "\nsession: {own: subject}").settings.profile.own == .subject)
        #expect(try load(Self.oidc).settings.profile.own == .subject)
        #expect(try load(Self.oidc).settings.clients.first?.profile.assumesScope == true)
        #expect(try load(clover).settings.clients.first?.profile.assumesScope == false)
        #expect(
            try load("kind: clever", client: "client_id: app, auth: blank_secret_basic").settings.clients.first?.profile
                .assumesScope == false)
    }

    @Test("The preset `apple` has no key, or `form_post` has a redirect URI with an app's own scheme → refused")
    func apple() {
        #expect(throws: ConfigurationFailure.self) { try load("preset: apple", client: "client_id: app") }
        #expect(throws: ConfigurationFailure.self) {
            try ConfigurationFixture.load(
                ConfigurationFixture.minimal.replacingFirst(
                    "auth: none", with: "auth: none\n        response_mode: form_post"))
        }
    }

    @Test(
        "`response_mode: jwt` or `query.jwt` → refused, and the message names JARM",
        arguments: [
            ("auth: none\n        response_mode: query.jwt", "JARM"),
            ("auth: none\n        response_mode: jwt", "JARM"),
        ])
    func notOffered(_ text: String, _ name: String) {
        let file = ConfigurationFixture.minimal.replacingFirst("auth: none", with: text)
        let errors = ConfigurationFixture.errors(file)
        #expect(errors.contains { "\($0)".contains(name) && "\($0)".contains("not offered") }, "\(errors)")
    }

    @Test("A client's `token_types` has DPoP → refused, and the message names `sender_constrained: dpop`")
    func tokenType() {
        let file = ConfigurationFixture.minimal.replacingFirst(
            "auth: none", with: "auth: none\n        token_response: {token_types: [DPoP]}")
        let errors = ConfigurationFixture.errors(file)
        #expect(errors.contains { "\($0)".contains("`sender_constrained: dpop`") }, "\(errors)")
    }

    // MARK: Tokens bound to a key

    @Test(
        "A provider has `sender_constrained` and `dpop` → its clients use them; a client has its own → the client's are used"
    )
    func bound() throws {
        let oidc = "kind: oidc\nissuer: https://id.example.com"
        let plain = try load(oidc).settings.clients
        #expect(plain.map(\.profile.senderConstraint) == [.off])
        #expect(plain.map(\.wire.dpop) == [DPoPSettings()])
        let shared = try load(
            oidc + "\nsender_constrained: dpop\ndpop: {par: thumbprint, nonce_before_spending: true, nonce_age: 30s}")
        #expect(shared.settings.clients.map(\.profile.senderConstraint) == [.dpop])
        var dpop = DPoPSettings()
        (dpop.par, dpop.nonceBeforeSpending, dpop.nonceAge) = (.thumbprint, .yes, .seconds(30))
        #expect(shared.settings.clients.map(\.wire.dpop) == [dpop])
        let own = try load(
            oidc + "\nsender_constrained: dpop", client: "client_id: app, auth: none, sender_constrained: off")
        #expect(own.settings.clients.map(\.profile.senderConstraint) == [.off])
    }

    @Test(
        "A setting that contradicts `sender_constrained: dpop`, or a wrong value of `dpop` → refused",
        arguments: [
            ("sender_constrained: dpop\n        hand_out_access_token: true", "hand_out_access_token: contradicts"),
            ("dpop: {par: both}", "dpop.par"),
            ("dpop: {nonce_age: 1s}", "dpop.nonce_age"), ("dpop: {nonce_before_spending: maybe}", "nonce_before"),
            ("authorization_parameters: {dpop_jkt: x}", "dpop_jkt"), ("allowed_parameters: [dpop_jkt]", "dpop_jkt"),
        ])
    func boundAgainst(_ text: String, _ words: String) {
        let file = ConfigurationFixture.minimal.replacingFirst("auth: none", with: "auth: none\n        \(text)")
        let errors = ConfigurationFixture.errors(file)
        #expect(errors.contains { "\($0)".contains(words) }, "\(errors)")
    }

    @Test(
        "Bound tokens at another kind of provider than `oidc` or `oauth2`, or with a backend that gets access tokens → refused"
    )
    func boundElsewhere() {
        let clever = """
            server: {public_url: "https://auth.example.com"}
            keys: {file: keys.json}
            providers:
              clever:
                kind: clever
                clients:
                  web: {client_id: a, auth: blank_secret_basic, redirect_uris: ["clever-a://oauth"], sender_constrained: dpop}
            """
        #expect(ConfigurationFixture.errors(clever).contains { "\($0)".contains("`oidc` and `oauth2`") })
        let bound = ConfigurationFixture.minimal.replacingFirst(
            "auth: none", with: "auth: none\n        sender_constrained: dpop")
        let digest = String(repeating: "ab", count: 32)
        let backend = "\nbackends:\n  b: {sha256: \(digest), may: [forward-auth], forward_access_token: true}\n"
        #expect(
            ConfigurationFixture.errors(bound + backend).contains { "\($0)".contains("forward_access_token") })
        #expect(
            !ConfigurationFixture.errors(ConfigurationFixture.minimal + backend)
                .contains { "\($0)".contains("forward_access_token") })
    }

    @Test(
        "A malformed post_logout_redirect_uri → refused",
        arguments: ["https://a b", "javascript:x", "http://example.com/out", "x"])
    func postLogout(_ uri: String) {
        let file = ConfigurationFixture.minimal.replacingFirst(
            "auth: none", with: "auth: none\n        post_logout_redirect_uri: \"\(uri)\"")
        #expect(ConfigurationFixture.errors(file).contains { "\($0)".contains("post_logout_redirect_uri") })
    }

    // MARK: The documents

    /// Completes a configuration block of a page: adds the required sections that it lacks, so that the result is a whole file.
    private static func whole(_ block: String) -> String {
        let isTop = { (key: String) in block.hasPrefix(key + ":") || block.contains("\n" + key + ":") }
        var text = block
        if !isTop("server") { text = "server: {public_url: \"https://auth.example.com\"}\n" + text }
        if isTop("server"), !block.contains("public_url") {
            text = text.replacingFirst("server:\n", with: "server:\n  public_url: https://auth.example.com\n")
        }
        if !isTop("keys") { text = "keys: {file: keys.json}\n" + text }
        if !isTop("providers") {
            text += """

                providers:
                  clever:
                    kind: clever
                    clients:
                      web: {client_id: web-1, client_secret: {env: X}, redirect_uris: ["https://app.example.com/clever"]}
                """
        }
        return text
    }

    @Test("Every YAML block of README and of the pages → passes `check`, with each key in its right place")
    func documents() throws {
        let root = #filePath.replacingOccurrence(
            "Tests/coatcheckTests/Configuration/ProviderSettingsTests.swift", "")
        let sources = ConfigSources(
            environment: { name in
                name.hasSuffix("_URL") ? "postgresql://coatcheck@localhost/coatcheck" : "zQ8vN2kLr5TwX7yB3mHd"
            },
            readFile: { path throws(FileFault) in
                path.hasSuffix(".json")
                    ? Array("{}".utf8)
                    : Array((ConfigurationFixture.certificate + "\n" + ConfigurationFixture.certificateKey).utf8)
            }, isOpenToOthers: { _ in false }, directory: "")
        var blocks = 0
        for folder in [
            "", "docs/", "docs/start/", "docs/apps/", "docs/backends/", "docs/operate/", "docs/providers/",
            "docs/reference/", "docs/internals/", "docs/decisions/",
        ] {
            for name in try FileManager.default.contentsOfDirectory(atPath: root + folder).sorted()
            where name.hasSuffix(".md") {
                let page = try String(contentsOfFile: root + folder + name, encoding: .utf8)
                for part in page.components(separatedBy: "```yaml\n").dropFirst() {
                    let block = part.components(separatedBy: "```").first ?? ""
                    blocks += 1
                    do throws(ConfigurationFailure) {
                        let loaded = try Configuration.load(text: Self.whole(block), sources: sources)
                        let misplaced = loaded.warnings.filter { $0.message.contains("belongs to the provider, at") }
                        #expect(misplaced == [], "\(folder + name)")
                    } catch {
                        Issue.record("\(folder + name): \(error.problems.filter { $0.severity == .error })")
                    }
                }
            }
        }
        #expect(blocks >= 16)
    }
}
