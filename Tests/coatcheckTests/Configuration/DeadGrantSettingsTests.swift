import BrokerProviders
import Testing

@testable import coatcheck

@Suite("Settings for a provider's answer that a grant has ended (`dead_grants`)", .timeLimit(.minutes(2)))
struct DeadGrantSettingsTests {
    private func text(_ entry: String) -> String {
        let issuer = "issuer: https://id.example.com"
        return ConfigurationFixture.minimal.replacingFirst(
            issuer, with: issuer + "\n    token_response: {dead_grants: [\(entry)]}")
    }

    @Test(
        "An entry of `dead_grants` that is malformed, or too general to prove a dead grant → refused at its own key",
        arguments: [
            (#"{at: /status, values: [""]}"#, "values"), (#"{at: /status, values: [" "]}"#, "values"),
            ("{at: /status, values: []}", "values"), ("{at: /status, values: [400]}", "values"),
            ("{at: /status, values: [\"401\"]}", "values"), ("{at: /status, values: [GONE, 403]}", "values"),
            ("{at: /status, values: [429]}", "values"), ("{at: /status, values: [500]}", "values"),
            ("{at: /status, values: [503]}", "values"), ("{at: /status, values: [599]}", "values"),
            ("{at: status, values: [GONE]}", "at"), ("{at: /, values: [GONE]}", "at"),
            ("{at: /errors/0/code, values: [GONE]}", "at"), ("{at: /status, values: [GONE], statuses: []}", "statuses"),
            ("{at: /status, values: [GONE], statuses: [500]}", "statuses"),
            ("{at: /status, values: [GONE], statuses: [429]}", "statuses"),
            ("{at: /status, values: [GONE], statuses: [302]}", "statuses"),
            ("{at: /status, values: [GONE], statuses: [200, x]}", "statuses"), ("{values: [GONE]}", ""),
            ("{at: /status}", ""), ("{at: /status, values: [GONE], value: X}", "value"),
        ])
    func refused(_ entry: String, _ key: String) {
        let errors = ConfigurationFixture.errors(text(entry))
        #expect(!errors.isEmpty, "\(entry)")
        #expect(errors.allSatisfy { $0.path.contains("dead_grants") && $0.path.hasSuffix(key) }, "\(errors)")
    }

    @Test(
        "`dead_grants` has an error code that RFC 6749 defines for another fault → a warning",
        arguments: ["invalid_request", "invalid_client", "unauthorized_client", "access_denied", "server_error"])
    func warned(_ word: String) {
        let problems = ConfigurationFixture.problems(text("{at: /code, values: [\(word)]}"))
        #expect(problems.allSatisfy { $0.severity == .warning })
        #expect(problems.contains { $0.path.hasSuffix("dead_grants[0].values") }, "\(problems)")
    }

    @Test("A provider has `dead_grants` → its clients use them; a client has its own → they replace the provider's")
    func read() throws {
        let given =
            "{at: /errors/*/errorType, values: [invalid_grant, \"Refresh token expired\"]}, {at: /errcode, values: [40030], statuses: [200, 404]}"
        let provider = try #require(try ConfigurationFixture.load(text(given)).providers.first)
        let places = [
            DeadGrantPlace(pointer: "/errors/*/errorType", values: ["invalid_grant", "Refresh token expired"]),
            DeadGrantPlace(pointer: "/errcode", values: ["40030"], statuses: [200, 404]),
        ]
        #expect(provider.settings.clients.map(\.wire.tokenResponse.deadGrants) == [places])
        let own = text(given).replacingFirst(
            "auth: none", with: "auth: none\n        token_response: {dead_grants: []}")
        let other = try #require(try ConfigurationFixture.load(own).providers.first)
        #expect(other.settings.clients.map(\.wire.tokenResponse.deadGrants) == [[]])
    }

    @Test("A list of algorithms has Ed25519 → read as EdDSA; it has ed25519, Ed448, or a name twice → refused")
    func algorithms() throws {
        func text(_ names: String) -> String {
            let issuer = "issuer: https://id.example.com"
            return ConfigurationFixture.minimal.replacingFirst(
                issuer, with: issuer + "\n    id_token: {algorithms: [\(names)]}")
        }
        for names in ["ed25519", "Ed448", "Ed25519, Ed25519"] {
            #expect(!ConfigurationFixture.errors(text(names)).isEmpty, "\(names)")
        }
        for names in ["Ed25519", "EdDSA", "Ed25519, EdDSA"] {
            let provider = try #require(try ConfigurationFixture.load(text(names)).providers.first)
            #expect(provider.settings.clients.map(\.wire.idToken.algorithms) == [[.edDSA]])
        }
    }

    @Test("A client has `redirect_name` → its value is read")
    func redirectName() throws {
        let text = ConfigurationFixture.minimal.replacingFirst(
            "auth: none", with: "auth: none\n        redirect_name: Example-App-1")
        let provider = try #require(try ConfigurationFixture.load(text).providers.first)
        #expect(provider.settings.clients.map(\.redirectName) == ["Example-App-1"])
    }
}
