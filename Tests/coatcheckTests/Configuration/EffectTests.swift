import Testing

@testable import coatcheck

@Suite("Settings that do not have the effect that their words suggest", .timeLimit(.minutes(1)))
struct EffectTests {
    private static let digest = "1fc72e39e16a2f72e5a5382851ff187f11feac41a2a5901c39579c46c9edbc6d"

    /// Returns the problems of a file with the given settings of the client and the provider, and further sections.
    private func problems(client: String = "", provider: String = "", more: String = "") -> [ConfigProblem] {
        ConfigurationFixture.problems(
            """
            server:
              public_url: https://auth.example.com
              trusted_proxies: [127.0.0.1]
            keys: {file: keys.json}
            providers:
              example:
                kind: oidc
                issuer: https://id.example.com
            \(indented(provider, by: 4))
                clients:
                  ios:
                    client_id: mobile-app
                    auth: none
                    redirect_uris: ["com.example.app:/oauth2redirect"]
            \(indented(client, by: 8))
            \(more)
            """)
    }

    private func indented(_ text: String, by width: Int) -> String {
        text.split(separator: "\n").map { String(repeating: " ", count: width) + $0 }.joined(separator: "\n")
    }

    private func said(_ problems: [ConfigProblem]) -> [String] { problems.map(\.description) }

    @Test(
        "No backend may redeem tickets for a `web` origin → a warning; a backend may, or the origin is the broker's → no warning"
    )
    func origins() {
        func warnings(_ backend: String, origin: String = "https://shop.example.com") -> [ConfigProblem] {
            problems(
                client: "children:\n  web:\n    origins: [\"\(origin)\"]",
                more: "backends: {shop: {sha256: \(Self.digest), \(backend)}}"
            ).filter { $0.message.contains("no backend can redeem") }
        }
        let shop = "origins: [\"https://shop.example.com\"]"
        let other = "origins: [\"https://other.example.com\"]"
        for backend in [
            "may: [introspect]", "may: [handover], \(other)",
            "may: [handover], \(shop), allow: [{provider: example, clients: [web]}]",
        ] {
            let found = warnings(backend)
            #expect(found.map(\.path) == ["providers.example.clients.ios.children.web.origins"], "\(backend)")
            #expect(found.allSatisfy { $0.severity == .warning && $0.line == 17 }, "\(found)")
        }
        #expect(warnings("may: [handover], \(shop)").isEmpty)
        #expect(warnings("may: [introspect]", origin: "https://auth.example.com").isEmpty)
    }

    @Test("`binding` has `pass` together with `evidence: proof` → a warning at `pass`, which has no effect")
    func passes() {
        let found = problems(client: "binding:\n  mode: enforce\n  pass: 2m\n  evidence: proof")
        #expect(found.map(\.path) == ["providers.example.clients.ios.binding.pass"] && found.first?.line == 17)
        #expect(problems(client: "binding: {mode: enforce, pass: 2m}").isEmpty)
        #expect(problems(client: "binding: {mode: enforce, evidence: proof}").isEmpty)
    }

    @Test(
        "A child kind's `absolute` is above its client's → a warning; only a `web` kind's default is above it → no warning"
    )
    func lives() {
        let short = "session: {idle: 10m, absolute: 1h}\n"
        let found = problems(client: short + "children:\n  widget: {idle: 10m, absolute: 2h}")
        #expect(found.map(\.path) == ["providers.example.clients.ios.children.widget.absolute"])
        #expect(found.first?.message.contains("longer than the 1h of the client's sessions") == true)
        #expect(problems(client: short + "children:\n  widget: {idle: 10m, absolute: 1h}").isEmpty)
        #expect(problems(client: short + "children:\n  widget: {}").isEmpty)
        #expect(
            problems(client: short + "children:\n  web: {origins: [\"https://auth.example.com\"]}").isEmpty)
    }

    @Test("`binding: enforce` together with `hand_out_access_token` → a warning")
    func tokens() {
        let found = problems(client: "binding: {mode: enforce}\nhand_out_access_token: true")
        #expect(found.map(\.path) == ["providers.example.clients.ios.hand_out_access_token"], "\(found)")
        #expect(problems(client: "binding: {mode: observe}\nhand_out_access_token: true").isEmpty)
    }

    @Test(
        "A second upstream reaches calls that an upstream's `require` entry protects → a warning at each entry that it bypasses"
    )
    func neighbours() {
        func warnings(_ other: String) -> [ConfigProblem] {
            problems(
                client: "binding: {mode: enforce}",
                more: """
                    upstreams:
                      shop:
                        base_url: https://api.example.com/shop
                        provider: example
                        allow: ["ANY /**"]
                        require:
                          - {allow: "GET /orders", max_age: 1h}
                          - {allow: "POST /pay/**", max_age: 5m}
                      other: {provider: example, \(other)}
                    """
            ).filter { $0.message.contains("is gone round through upstream `other`") }
        }
        let found = warnings("base_url: \"https://api.example.com\", allow: [\"POST /**\"]")
        #expect(found.map(\.path) == ["upstreams.shop.require[1]"], "\(found)")
        #expect(found.first?.line == 23)
        #expect(warnings("base_url: \"https://API.example.com/shop/\", allow: [\"ANY /**\"]").count == 2)
        for other in [
            "base_url: \"https://api.example.com\", allow: [\"POST /feed/**\"]",
            "base_url: \"https://api.example.com/shop\", allow: [\"GET /pay/**\"]",
            "base_url: \"https://api.example.com:8443/shop\", allow: [\"ANY /**\"]",
            "base_url: \"https://api.example.com\", allow: [\"POST /**\"], require: [{allow: \"POST /shop/**\", max_age: 5m}]",
        ] { #expect(warnings(other).isEmpty, "\(other)") }
    }

    @Test("A value of `acr` has a space, as a text or in a list → a warning")
    func classes() {
        func paths(_ acr: String) -> [String] {
            problems(
                client: "binding: {mode: enforce}",
                more: """
                    upstreams: {api: {base_url: "https://api.example.com", provider: example, allow: ["GET /**"], require: [{allow: "GET /a", acr: \(acr)}]}}
                    """
            ).map(\.path)
        }
        #expect(paths("\"mfa phr\"") == ["upstreams.api.require[0].acr"])
        #expect(paths("[mfa, \"Level 2\"]") == ["upstreams.api.require[0].acr"])
        #expect(paths("[mfa, phr]").isEmpty && paths("mfa").isEmpty)
    }

    @Test(
        "A setting is on the wrong level of the file → an error that names the right place",
        arguments: [
            ("provider", "binding: {mode: enforce}", "providers.example.binding", "in `providers.NAME.clients.NAME`"),
            ("client", "issuer: https://id.example.com", "providers.example.clients.ios.issuer", "in `providers.NAME`"),
            ("more", "trusted_proxies: [10.0.0.1]", "trusted_proxies", "in `server`"),
            (
                "more",
                "upstreams: {api: {base_url: \"https://a.example.com\", provider: example, allow: [\"GET /a\"], acr: mfa}}",
                "upstreams.api.acr", "in an entry of `upstreams.NAME.require`"
            ),
            ("client", "upstreams: {}", "providers.example.clients.ios.upstreams", "at the top of the file"),
        ])
    func misplaced(_ level: String, _ text: String, _ path: String, _ place: String) {
        let found = problems(
            client: level == "client" ? text : "", provider: level == "provider" ? text : "",
            more: level == "more" ? text : "")
        let error = found.first { $0.path == path }
        #expect(error?.severity == .error && error?.message.contains("is not a key here") == true, "\(said(found))")
        #expect(error?.message.contains(place) == true, "\(said(found))")
        #expect(found.filter { $0.severity == .error }.count == 1, "\(said(found))")
    }

    @Test("The second entry of a list has a fault → the error has the second entry's path and line")
    func entries() {
        let upstream = problems(
            more: """
                upstreams:
                  api:
                    base_url: https://api.example.com
                    provider: example
                    allow: ["POST /pay"]
                    require:
                      - {allow: "POST /pay", max_age: 5m}
                      - {allow: "POST /gone", max_age: 5m}
                """
        ).filter { $0.severity == .error }
        #expect(upstream.map(\.path) == ["upstreams.api.require[1]"] && upstream.first?.line == 23, "\(said(upstream))")
        let backend = problems(
            more: """
                backends:
                  orders:
                    sha256: \(Self.digest)
                    may: [introspect]
                    allow:
                      - provider: example
                      - provider: exampel
                """
        ).filter { $0.severity == .error }
        #expect(backend.map(\.path) == ["backends.orders.allow[1]"] && backend.first?.line == 22, "\(said(backend))")
    }

    @Test(
        "An upstream has http and `internal: true` → a warning; without `internal` → an error; at a loopback address → neither"
    )
    func plainUpstreams() {
        func found(_ settings: String) -> [ConfigProblem] {
            problems(more: "upstreams: {api: {provider: example, allow: [\"GET /**\"], \(settings)}}")
        }
        let inside = found("base_url: \"http://orders.shop:8080\", internal: true")
        #expect(
            inside.map(\.path) == ["upstreams.api.base_url"] && inside.first?.severity == .warning, "\(said(inside))")
        let refused = found("base_url: \"http://orders.shop:8080\"")
        #expect(
            refused.contains { $0.severity == .error && $0.message.contains("`internal: true`") }, "\(said(refused))")
        #expect(found("base_url: \"http://127.0.0.1:8080\"").isEmpty)
    }

    @Test("An allowed origin is on another site than the broker → a warning, unless the cookie has `same_site: none`")
    func sites() {
        func paths(_ origin: String, _ sameSite: String = "strict") -> [String] {
            problems(
                more: "session: {allowed_origins: [\"\(origin)\"], cookie: {same_site: \(sameSite)}}"
            ).map(\.path)
        }
        for origin in ["https://app.example.org", "http://localhost:3000", "https://192.0.2.1"] {
            #expect(paths(origin) == ["session.allowed_origins"], "\(origin)")
            #expect(paths(origin, "lax") == ["session.allowed_origins"], "\(origin)")
            #expect(paths(origin, "none").isEmpty)
        }
        #expect(paths("https://app.example.com").isEmpty && paths("https://auth.example.com:8443").isEmpty)
    }

    @Test(
        "An allowed origin is a web shell, such as capacitor://localhost → accepted; no client uses bearer tokens → a warning"
    )
    func shells() throws {
        let origins = [
            "capacitor://localhost", "ionic://localhost", "tauri://localhost", "app://localhost", "app://-",
            "http://tauri.localhost",
            "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
            "moz-extension://6b0e9b5c-6d0c-4a4b-9a52-0f6c2a3a9d41",
        ]
        let list = origins.map { "\"\($0)\"" }.joined(separator: ", ")
        for (transport, warnings) in [("cookie", 1), ("bearer", 0)] {
            let text =
                ConfigurationFixture.minimal
                + "\n        transport: \(transport)\nsession: {allowed_origins: [\(list), \"https://app.example.com\"]}"
            let loaded = try ConfigurationFixture.load(text)
            #expect(
                loaded.session.shellOrigins == origins && loaded.session.allowedOrigins == ["https://app.example.com"])
            #expect(loaded.warnings.filter { $0.path == "session.allowed_origins" }.count == warnings)
        }
        for other in [
            "null", "*", "capacitor://", "capacitor:localhost", "capacitor://localhost/", "capacitor://localhost:80",
            "Capacitor://localhost", "capacitor://*", "capacitor://a@b", "file://localhost", "data://x", "blob://x",
            "javascript://x", "about://blank", "http://app.example.com", "http://.localhost", "http://xlocalhost",
            "https://app.example.com/", "1app://x",
            "app://\u{E9}",
        ] {
            let text = ConfigurationFixture.minimal + "\nsession: {allowed_origins: [\"\(other)\"]}"
            let found = ConfigurationFixture.errors(text)
            #expect(found.map(\.path) == ["session.allowed_origins"], "\(other)")
            #expect(found.first?.message.contains("`\(other)`") == true)
        }
    }

    @Test(
        "An https redirect URI on the broker's host → a warning; with `webcredentials: true` → the app is in the association file"
    )
    func webcredentials() throws {
        func found(_ ios: String, _ uri: String) throws -> (warnings: [String], file: String) {
            let text = ConfigurationFixture.minimal.replacing("com.example.app:/oauth2redirect", with: uri)
            let loaded = try ConfigurationFixture.load(
                text + "\napp_links: {ios: {app_ids: [T.a], paths: [/oauth/*]\(ios)}}")
            let links = try #require(loaded.appLinks.ios)
            return (
                loaded.warnings.map(\.message).filter { $0.contains("webcredentials") },
                String(decoding: links.json, as: UTF8.self)
            )
        }
        for uri in ["https://auth.example.com/oauth/cb", "HTTPS://Auth.example.com:443/oauth/cb"] {
            let off = try found("", uri)
            #expect(off.warnings.count == 1 && !off.file.contains("webcredentials"))
            let on = try found(", webcredentials: true", uri)
            #expect(on.warnings.isEmpty && on.file.hasSuffix(#","webcredentials":{"apps":["T.a"]}}"#), "\(on.file)")
        }
        for uri in ["com.example.app:/cb", "https://app.example.com/oauth/cb"] {
            #expect(try found("", uri).warnings.isEmpty)
        }
    }
}
