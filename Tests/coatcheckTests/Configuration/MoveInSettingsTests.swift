import Broker
import BrokerHTTP
import BrokerProviders
import BrokerWire
import Testing

@testable import coatcheck

@Suite("Settings for moves from an old system (`move_in`)", .timeLimit(.minutes(2)))
struct MoveInSettingsTests {
    private static let path = "providers.example.clients.ios.move_in"
    private static let from = "from: {url: \"https://old.example.com/claim\", credential: {env: EXAMPLE_CLIENT_SECRET}}"

    private func text(_ setting: String, _ more: String = "", auth: String = "auth: none") -> String {
        ConfigurationFixture.minimal.replacingFirst(
            "auth: none", with: "\(auth)\n        \(more.isEmpty ? "" : more + "\n        ")move_in: \(setting)")
    }

    /// Returns the problems of the providers; the fixture's server always has a warning.
    private func problems(
        _ text: String, now: WallTime = WallTime(seconds: 1_795_000_000)
    ) -> [ConfigProblem] {
        var sources = ConfigurationFixture.sources
        sources.now = { now }
        let problems: [ConfigProblem]
        do throws(ConfigurationFailure) {
            problems = try Configuration.load(text: text, sources: sources).warnings
        } catch { problems = error.problems }
        return problems.filter { $0.path.hasPrefix("providers.") }
    }

    private func errors(_ text: String) -> [ConfigProblem] { problems(text).filter { $0.severity == .error } }

    private let good = "{\(Self.from), until: 2027-03-31}"

    @Test(
        "A part of the setting is missing or malformed → refused at its line",
        arguments: [
            "true", "{}", "[]", "{until: 2027-03-31}", "{\(from)}", "{\(from), until: soon}",
            "{from: {url: \"https://old.example.com/claim\"}, until: 2027-03-31}",
            "{from: {credential: {env: EXAMPLE_CLIENT_SECRET}}, until: 2027-03-31}",
            "{from: {url: \"http://old.example.com/claim\", credential: {env: EXAMPLE_CLIENT_SECRET}}, until: 2027-03-31}",
            "{from: {url: \"https://a@old.example.com/\", credential: {env: EXAMPLE_CLIENT_SECRET}}, until: 2027-03-31}",
            "{from: {url: \"https://old.example.com/claim\", credential: {env: MISSING}}, until: 2027-03-31}",
            "{from: {url: \"https://old.example.com/claim\", credential: secret}, until: 2027-03-31}",
            "{\(from), until: 2027-03-31, subject: trusted}", "{\(from), until: 2027-03-31, cookie: \"a b\"}",
            "{\(from), until: 2027-03-31, cookie: \"a=b\"}", "{\(from), until: 2027-03-31, cookie: \"\"}",
            "{\(from), until: 2027-03-31, cookies: sid}",
        ])
    func malformed(_ setting: String) {
        let errors = errors(text(setting))
        #expect(!errors.isEmpty)
        #expect(errors.allSatisfy { $0.path.hasPrefix(Self.path) && $0.line == 13 }, "\(errors)")
    }

    @Test(
        "The cookie has the name of one of the broker's own cookies → refused",
        arguments: [
            "__Host-coatcheck", "__Host-coatcheck-login", "__Host-coatcheck-pass", "__Host-coatcheck-web", "coatcheck",
            "__Host-coatcheck-handover", "coatcheck-handover",
        ])
    func ownCookie(_ name: String) {
        #expect(
            errors(text("{\(Self.from), until: 2027-03-31, cookie: \(name)}")).map(\.path) == [Self.path + ".cookie"])
    }

    @Test("A client takes the old system's cookie, or another form of `move_in` → a header field may have 24 or 8 KiB")
    func oldCookie() throws {
        for (setting, more) in [(good, 0), ("{\(Self.from), until: 2027-03-31, cookie: connect.sid}", 16_384)] {
            let configuration = try ConfigurationFixture.load(text(setting))
            let limits = HTTPConfiguration(configuration, contract: []).limits.connection
            #expect(limits.headerField == 8192 + more)
            #expect(limits.headers == 16_384 + more)
        }
    }

    @Test("The client lacks refresh tokens, or a way to know the user → refused at its line")
    func withoutRefresh() {
        #expect(errors(text(good, "refresh: {mode: none}")).map(\.path) == [Self.path])
        let facebook = """
              example:
                preset: facebook
            """
        let text = text(good, auth: "client_secret: {env: EXAMPLE_CLIENT_SECRET}")
        #expect(
            errors(
                text.replacingFirst("  example:\n    kind: oidc\n    issuer: https://id.example.com", with: facebook)
            ).contains { $0.path == Self.path && $0.message.contains("refresh tokens") })
        #expect(
            errors(self.text(good).replacingFirst("kind: oidc", with: "kind: oauth2")).map(\.path) == [Self.path])
    }

    @Test("Clover, Clever or Zephr → refused at its line")
    func otherKinds() {
        for kind in [
            "kind: clover\n    environment: us\n    site_url: https://app.example.com", "kind: clever",
            "kind: zephr\n    tenant: example",
        ] {
            let text = text(good).replacingFirst("kind: oidc\n    issuer: https://id.example.com", with: kind)
            #expect(errors(text).contains { $0.path == Self.path }, "\(kind)")
        }
    }

    @Test("A client with `profile: fapi2` → `move_in` is refused, one time")
    func fapi2() {
        let text = text(good, auth: "profile: fapi2\n        private_key: {file: service-key.pem}")
        #expect(errors(text).count { $0.path == Self.path } == 1)
    }

    @Test("`subject: believed` → accepted with a warning")
    func believed() {
        let found = problems(text("{\(Self.from), until: 2027-03-31, subject: believed}"))
        #expect(found.map(\.path) == [Self.path + ".subject"] && found.allSatisfy { $0.severity == .warning })
    }

    @Test("`until` is more than a year away → `check` refuses, a running broker warns; in the past → accepted")
    func far() throws {
        let now = WallTime(seconds: 1_795_000_000)
        let far = text("{\(Self.from), until: 2029-01-01}")
        #expect(problems(far, now: now).map(\.severity) == [.warning])
        let configuration = try ConfigurationFixture.load(far)
        let refused = ImportRules.problems(
            configuration.providers.flatMap(\.clients), configuration.lines, now: now, severity: .error)
        #expect(refused.map(\.path) == [Self.path + ".until"])
        #expect(problems(text("{\(Self.from), until: 2020-01-01}"), now: now).isEmpty)
    }

    @Test("A whole setting, of a client with a secret, too → read")
    func whole() throws {
        let setting = "{\(Self.from), until: 2027-03-31, cookie: connect.sid}"
        for auth in ["auth: none", "client_secret: {env: EXAMPLE_CLIENT_SECRET}"] {
            let text = text(setting, "trusted_audiences: [tablet]", auth: auth)
            #expect(problems(text).isEmpty)
            let client = try #require(try ConfigurationFixture.load(text).providers.first?.settings.clients.first)
            #expect(
                client.profile.moveIn
                    == MoveInPolicy(until: WallTime(seconds: 1_806_537_599), cookie: "connect.sid"))
            #expect(client.oldSystem?.url.text == "https://old.example.com/claim")
            #expect(client.oldSystem?.isInternal == false)
        }
        let plain = text(
            "{from: {url: \"http://127.0.0.1:7/claim\", credential: {env: EXAMPLE_CLIENT_SECRET}, "
                + "internal: true}, until: 2027-03-31}")
        #expect(problems(plain).isEmpty)
    }
}
