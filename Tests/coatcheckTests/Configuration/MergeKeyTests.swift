import Broker
import BrokerProviders
import Testing

@testable import coatcheck

@Suite("Merge keys and extensions of the file", .timeLimit(.minutes(1)))
struct MergeKeyTests {
    /// A file that begins with `top` and has the lines `clients` for its clients.
    ///
    /// The anchors are in `top`, so their lines count from 1.
    private static func file(_ top: String, clients: String) -> String {
        """
        \(top)
        server:
          public_url: https://auth.example.com
          trusted_proxies: [10.0.0.1]
        keys:
          file: keys.json
        providers:
          example:
            kind: oidc
            issuer: https://id.example.com
            clients:
        \(clients)
        """
    }

    private static let app = """
        x-app: &app
          auth: none
          scope: openid email
          redirect_uris: ["com.example.app:/cb"]
        x-bearer: &bearer {transport: bearer, scope: openid}
        """

    private static func clients(_ text: String) throws -> [String: ClientProfile] {
        let profiles = try ConfigurationFixture.load(text).providers.flatMap(\.clients).map(\.settings.profile)
        return Dictionary(uniqueKeysWithValues: profiles.map { ($0.name.text, $0) })
    }

    @Test(
        "A merge key (`<<`) has a mapping, a list or nested merges → merged; the mapping's own key → replaces a merged key"
    )
    func merges() throws {
        let clients = try Self.clients(
            Self.file(
                Self.app + "\nx-both: &both {<<: [*bearer, *app], hand_out_access_token: true}",
                clients: """
                          ios: {<<: *app, client_id: one, redirect_uris: ["com.example.ios:/cb"]}
                          android:
                            client_id: two
                            <<: [*bearer, *app]
                          desk:
                            <<: *both
                            client_id: three
                            scope: openid profile
                            redirect_uris: ["com.example.desk:/cb"]
                          tv: {<<: {auth: none}, client_id: four, redirect_uris: ["com.example.tv:/cb"]}
                    """))
        #expect(clients["ios"]?.scope == ["openid", "email"] && clients["ios"]?.transport == .cookie)
        #expect(clients["android"]?.scope == ["openid"] && clients["android"]?.transport == .bearer)
        #expect(clients["android"]?.redirectURIs.map(\.text) == ["com.example.app:/cb"])
        #expect(clients["desk"]?.scope == ["openid", "profile"] && clients["desk"]?.handsOutAccessToken == true)
        #expect(clients["tv"]?.redirectURIs.count == 1)
    }

    @Test("The top of the file has a merge key (`<<`) → its mapping is merged, except for the mapping's `x-` keys")
    func root() throws {
        let text = Self.file(
            "x-base: &base {log: {level: warning}, x-inner: {a: 1}}\n<<: *base",
            clients: "      ios: {client_id: one, auth: none, redirect_uris: [\"com.example.app:/cb\"]}")
        let configuration = try ConfigurationFixture.load(text)
        #expect(configuration.values.has("log.level"))
        #expect(!configuration.values.has("x-base.log.level") && !configuration.values.has("x-inner.a"))
    }

    @Test("A merged value (`<<`) has a fault → reported with the line of the value")
    func lines() {
        let top = "x-app: &app\n  auth: none\n  scopes: openid\n  redirect_uris: [\"not a uri\"]"
        let problems = ConfigurationFixture.errors(
            Self.file(top, clients: "      ios:\n        <<: *app\n        client_id: one"))
        #expect(
            problems.map { "\($0.line ?? 0) \($0.path)" } == [
                "3 providers.example.clients.ios.scopes", "4 providers.example.clients.ios.redirect_uris",
            ], "\(problems)")
        let missing = ConfigurationFixture.errors(
            Self.file("x-app: &app {auth: none}", clients: "      ios:\n        <<: *app\n        client_id: one"))
        #expect(missing.map { "\($0.line ?? 0) \($0.path)" } == ["13 providers.example.clients.ios"], "\(missing)")
    }

    @Test(
        "A merge key (`<<`) has a value of the wrong type, or an `x-` key is not at the top → refused at its line",
        arguments: [
            // Only keys at the top of the file may begin with `x-`.
            (app, "      ios: {<<: *app, client_id: one, x-note: 1}", 16, "is not a key"),
            ("y-app: 1", "      ios: {client_id: one, auth: none}", 1, "is not a key"),
            ("x_app: 1", "      ios: {client_id: one, auth: none}", 1, "is not a key"),
            // Merge keys with values that are not allowed.
            (app, "      ios: {<<: app, client_id: one}", 16, "`<<` takes a mapping, or a list of mappings"),
            (app, "      ios: {<<: [*app, 1], client_id: one}", 16, "`<<` takes a mapping, or a list of mappings"),
            (app, "      ios: {<<: , client_id: one}", 16, "`<<` takes a mapping, or a list of mappings"),
            (app, "      ios: {\"<<\": *app, client_id: one}", 16, "is not a key"),
            (app, "      ios: {<<: *app, <<: *bearer, client_id: one}", 16, "names a key twice: <<"),
            (app, "      ios: {<<: *nobody, client_id: one}", 16, "undefined alias"),
        ])
    func refused(_ top: String, _ clients: String, _ line: Int, _ says: String) {
        let problems = ConfigurationFixture.errors(Self.file(top, clients: clients))
        #expect(problems.contains { $0.message.contains(says) && $0.line == line }, "\(problems)")
    }

    @Test("A file has over 10,000 values, after aliases and merge keys are expanded → refused")
    func bombs() {
        func list(_ count: Int) -> String {
            "x-list: [" + Array(repeating: "a", count: count).joined(separator: ", ") + "]"
        }
        let client = "      ios: {client_id: one, auth: none, redirect_uris: [\"com.example.app:/cb\"]}"
        #expect(ConfigurationFixture.errors(Self.file(list(9_900), clients: client)).isEmpty)
        let long = ConfigurationFixture.errors(Self.file(list(10_000), clients: client))
        #expect(long.first?.message.contains("more than 10,000 values") == true, "\(long)")
        var laughs = "x-0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n"
        var merges = "x-m0: &m0 {a: 1, b: 2, c: 3}\n"
        for level in 1...30 {
            laughs +=
                "x-\(level): &a\(level) [" + Array(repeating: "*a\(level - 1)", count: 9).joined(separator: ", ")
                + "]\n"
            merges +=
                "x-m\(level): &m\(level) {<<: [" + Array(repeating: "*m\(level - 1)", count: 9).joined(separator: ", ")
                + "]}\n"
        }
        for bomb in [laughs, merges] {
            let problems = ConfigurationFixture.errors(Self.file(bomb, clients: client))
            #expect(
                problems.count == 1 && problems.first?.message.contains("more than 10,000 values") == true,
                "\(problems)")
        }
        let deep = "x-deep: " + String(repeating: "[", count: 900) + String(repeating: "]", count: 900)
        #expect(
            ConfigurationFixture.errors(Self.file(deep, clients: client)).first?.message.contains("more than 64 levels")
                == true)
    }
}
