import Broker
import BrokerHTTP
import BrokerProviders
import Testing

@testable import coatcheck

@Suite("Settings for imported tokens (`import_tokens`)", .timeLimit(.minutes(2)))
struct ImportSettingsTests {
    private static let path = "providers.example.clients.ios.import_tokens"

    private func text(_ setting: String, _ more: String = "", auth: String = "auth: none") -> String {
        ConfigurationFixture.minimal.replacingFirst(
            "auth: none", with: "\(auth)\n        \(more.isEmpty ? "" : more + "\n        ")import_tokens: \(setting)")
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

    private let good = "{until: 2027-03-31}"

    @Test(
        "`until` is missing or malformed → refused at its line",
        arguments: [
            "true", "{}", "{confidential: true}", "{until: soon}", "{until: 2027-3-31}", "{until: 2027-02-29}",
            "{until: 2027-13-01}", "{until: 2027-04-31}", "{until: 1969-12-31}", "{until: 31.03.2027}",
            "{until: \"2027-03-31T18:00:00\"}", "{until: \"2027-03-31T24:00:00Z\"}",
            "{until: \"2027-03-31 18:00:00Z\"}",
            "{until: \"2027-03-31T18:00Z\"}", "{until: \"2027-03-31T18:00:00+2\"}",
            "{until: \"2027-03-31T18:00:00.Z\"}",
            "{until: \"2027-03-31T18:00:60Z\"}", "{until: \"2027-03-31T18:00:00+24:00\"}",
            "{until: 2027-03-31, per_hour: 7}", "[2027-03-31]", "yes",
        ])
    func malformed(_ setting: String) {
        let errors = errors(text(setting))
        #expect(!errors.isEmpty)
        #expect(errors.allSatisfy { $0.path.hasPrefix(Self.path) && $0.line == 13 }, "\(errors)")
    }

    @Test("A client has a secret or a key → refused, or with `confidential: true` a warning")
    func confidential() {
        let auth = "client_secret: {env: EXAMPLE_CLIENT_SECRET}"
        let refused = errors(text(good, auth: auth))
        #expect(refused.map(\.path) == [Self.path] && refused.allSatisfy { $0.message.contains("auth: none") })
        let allowed = problems(text("{until: 2027-03-31, confidential: true}", auth: auth))
        #expect(allowed.map(\.path) == [Self.path] && allowed.allSatisfy { $0.severity == .warning })
        #expect(problems(text("{until: 2027-03-31, confidential: true}")).map(\.severity) == [.warning])
        #expect(problems(text(good)).isEmpty)
    }

    @Test("The client lacks refresh tokens → refused at its line")
    func withoutRefresh() {
        #expect(errors(text(good, "refresh: {mode: none}")).map(\.path) == [Self.path])
        let facebook = """
              example:
                preset: facebook
            """
        let text = text(good, auth: "client_secret: {env: EXAMPLE_CLIENT_SECRET}")
            .replacingFirst("  example:\n    kind: oidc\n    issuer: https://id.example.com", with: facebook)
        #expect(errors(text).contains { $0.path == Self.path && $0.message.contains("refresh tokens") })
    }

    @Test("Kind `oauth2` lacks an address for the user → refused; with `identity` or `userinfo` → accepted")
    func withoutIdentity() {
        func oauth2(_ more: String) -> String {
            text(good, more).replacingFirst("kind: oidc", with: "kind: oauth2")
        }
        let errors = errors(oauth2(""))
        #expect(errors.map(\.path) == [Self.path] && errors.allSatisfy { $0.message.contains("identity") })
        #expect(problems(oauth2("identity: {url: \"https://api.example.com/me\"}")).isEmpty)
        let userinfo = oauth2("").replacingFirst(
            "kind: oauth2", with: "kind: oauth2\n    endpoints: {userinfo: \"https://id.example.com/userinfo\"}")
        #expect(problems(userinfo).isEmpty)
    }

    @Test("A client with `profile: fapi2` → `import_tokens: {until}` is refused, one time")
    func fapi2() {
        let text = text(good, auth: "profile: fapi2\n        private_key: {file: service-key.pem}")
        #expect(errors(text).count { $0.path == Self.path } == 1)
    }

    @Test("`per_minute` of imports and moves → read for the client; the largest value is the limit of an address")
    func paces() throws {
        let file = text(
            "{until: 2027-03-31, per_minute: 600}",
            "move_in: {from: {url: https://old.example.com/claim, credential: {env: EXAMPLE_CLIENT_SECRET}}, until: 2027-03-31, per_minute: 900}"
        )
        let configuration = try Configuration.load(text: file, sources: ConfigurationFixture.sources)
        let profile = try #require(configuration.providers.first?.clients.first?.settings.profile)
        #expect(profile.importsPerMinute == 600 && profile.moveIn?.perMinute == 900)
        #expect(configuration.limits.http.charges.importsPerMinute == 900)
        for value in ["0", "1000001", "many"] {
            #expect(
                errors(text("{until: 2027-03-31, per_minute: \(value)}")).map(\.path) == [Self.path + ".per_minute"])
        }
    }

    @Test("`trusted_audiences` with `import_tokens` → accepted, like with `native_code`")
    func audiences() {
        #expect(problems(text(good, "trusted_audiences: [tablet]")).isEmpty)
        #expect(!errors(text("false", "trusted_audiences: [tablet]")).isEmpty)
    }

    @Test("Clever and Clover → accept `true`, `false` and `{until}`")
    func endless() throws {
        for (setting, isOn, end) in [("true", true, nil), ("false", false, nil), (good, true, 1_806_537_599 as Int64?)]
        {
            let text = text(setting).replacingFirst(
                "kind: oidc\n    issuer: https://id.example.com",
                with: "kind: clover\n    environment: us\n    site_url: https://app.example.com"
            ).replacingFirst("com.example.app:/oauth2redirect", with: "https://app.example.com/cb")
            let client = try #require(try ConfigurationFixture.load(text).providers.first?.settings.clients.first)
            #expect(client.profile.importTokens == isOn)
            #expect(client.profile.importsUntil == end.map { WallTime(seconds: $0) })
        }
    }

    @Test("A date → the end of that day in UTC; an instant → this instant")
    func moments() throws {
        for (text, seconds) in [
            ("1970-01-01", 86_399), ("2000-02-29", 951_868_799), ("2027-03-31", 1_806_537_599),
            ("2028-02-29", 1_835_481_599), ("2100-12-31", 4_133_980_799), ("2027-03-31T18:00:00Z", 1_806_516_000),
            ("2027-03-31t18:00:00.5z", 1_806_516_000), ("2027-03-31T18:00:00+02:00", 1_806_508_800),
            ("2027-03-31T18:00:00-02:30", 1_806_525_000),
        ] as [(String, Int64)] {
            #expect(MomentText.parse(text) == WallTime(seconds: seconds), "\(text)")
        }
    }

    @Test("`until` is more than a year away → `check` refuses, a running broker warns; in the past → accepted")
    func far() throws {
        let now = WallTime(seconds: 1_795_000_000)
        let far = text("{until: 2029-01-01}")
        let problems = problems(far, now: now)
        #expect(problems.map(\.path) == [Self.path + ".until"] && problems.map(\.severity) == [.warning])
        #expect(problems.first?.line == 13)
        let configuration = try ConfigurationFixture.load(far)
        let refused = ImportRules.problems(
            configuration.providers.flatMap(\.clients), configuration.lines, now: now, severity: .error)
        #expect(refused.map(\.description) == ["error: line 13: \(Self.path).until: is more than a year away"])
        // The machine starts with its clock at 1970.
        #expect(self.problems(text(good), now: WallTime(seconds: 0)).map(\.severity) == [.warning])
        #expect(self.problems(text("{until: 2020-01-01}"), now: now).isEmpty)
    }
}
