import Broker
import BrokerProviders
import Testing

@testable import coatcheck

/// The tokens for other APIs in a configuration, and the providers that have to issue them.
@Suite("Configurations of tokens for an API", .timeLimit(.minutes(1)))
struct TargetConfigurationTests {
    private func text(_ token: String, backend: String, client: String) -> String {
        let more = """
            upstreams: {api: {base_url: "https://api.example.com", provider: example, allow: ["ANY /**"]\(token)}}
            backends: {orders: {sha256: 1fc72e39e16a2f72e5a5382851ff187f11feac41a2a5901c39579c46c9edbc6d, may: [introspect\(backend)}}

            """
        return ConfigurationFixture.minimal.replacingFirst("providers:\n", with: more + "providers:\n")
            .replacingFirst("        client_id:", with: client + "        client_id:")
    }

    private func problems(_ token: String, backend: String = "]", client: String = "") -> [String] {
        do throws(ConfigurationFailure) {
            return try ConfigurationFixture.load(text(token, backend: backend, client: client)).warnings
                .map { "\($0.path) \($0.message)" }
        } catch {
            return error.problems.filter { $0.severity == .error }.map {
                "\($0.line == nil ? "no line " : "")\($0.path) \($0.message)"
            }
        }
    }

    @Test(
        "Settings of an API's token are empty, ambiguous, malformed, or impossible for the provider → refused with the line"
    )
    func refused() {
        for (token, backend, client, words) in [
            (", token: {}", "]", "", "upstreams.api.token needs `resource`"),
            (", token: {exchange: {}}", "]", "", "upstreams.api.token.exchange needs"),
            (", token: {audience: a, exchange: {audience: a}}", "]", "", "token.audience stands beside `exchange`"),
            (", token: {resource: orders}", "]", "", "has to be an absolute URI"),
            (", token: {resource: \"https://a.example/#b\"}", "]", "", "has to be an absolute URI"),
            (", token: {resource: [\"urn:a\", \"urn:a\"]}", "]", "", "names something twice"),
            (", token: {resource: []}", "]", "", "has to be 1 to 8"),
            (", token: {scope: \"\"}", "]", "", "token.scope"),
            (", token: {audiences: a}", "]", "", "is not a key"),
            (", token: {audience: a}", "]", "        refresh: {mode: none}\n", "has `refresh: {mode: none}`"),
            (
                ", token: {resource: \"urn:a\"}", "]", "        authorization_parameters: {resource: \"urn:b\"}\n",
                "authorization_parameters has `resource`"
            ),
            ("", "], tokens: [{audience: a}]", "", "backends.orders.tokens needs `token` in `may`"),
            (
                "", ", token], tokens: [{audience: a}, {exchange: {audience: a}}]", "",
                "tokens[1] is an entry for the second time"
            ),
            (
                "", ", token], tokens: [{audience: a}]", "        refresh: {mode: none}\n",
                "tokens[0] is an entry that none"
            ),
        ] {
            let found = problems(token, backend: backend, client: client)
            #expect(found.contains { $0.contains(words) && !$0.hasPrefix("no line") }, "\(token) \(backend): \(found)")
        }
    }

    @Test(
        "An upstream needs token exchanges by a client with `auth: none`, or a file names tokens for nine APIs → a warning"
    )
    func warned() {
        #expect(problems(", token: {exchange: {audience: a}}").contains { $0.contains("has an exchange, and client") })
        let nine = (1...9).map { "{audience: a\($0)}" }.joined(separator: ", ")
        #expect(
            problems("", backend: ", token], tokens: [\(nine)]").contains { $0.contains("gives tokens for 9 APIs") })
        let eight = (1...8).map { "{audience: a\($0)}" }.joined(separator: ", ")
        let found = problems(", token: {audience: a1}", backend: ", token], tokens: [\(eight)]")
        #expect(!found.contains { $0.contains("gives tokens for") }, "\(found)")
    }

    @Test(
        "A client sends idempotency keys, and gets an API's token by a refresh → a warning; by an exchange → no warning"
    )
    func warnedOfReplays() {
        let words = "cannot be replayed for the session's own key"
        let keyed = "        token_request: {idempotency_key: true}\n"
        for (token, backend) in [(", token: {resource: \"urn:a\"}", "]"), ("", ", token], tokens: [{audience: a}]")] {
            let found = problems(token, backend: backend, client: keyed)
            #expect(found.count { $0.contains(words) } == 1, "\(token) \(backend): \(found)")
            #expect(!problems(token, backend: backend).contains { $0.contains(words) }, "no such provider")
        }
        for (token, client) in [
            (", token: {exchange: {audience: a}}", keyed),
            (", token: {audience: a}", keyed + "        refresh: {mode: keep}\n"),
        ] {
            let found = problems(token, client: client)
            #expect(!found.contains { $0.contains(words) || $0.contains("is not a key") }, "\(token): \(found)")
        }
    }

    @Test(
        "Upstreams and backends name APIs → sign-ins request each resource once, in the file's order, except those of exchanges"
    )
    func joined() throws {
        let file = text(
            ", token: {resource: [\"urn:b\", \"urn:a\"], scope: read}",
            backend:
                ", token], tokens: [{resource: \"urn:a\"}, {resource: \"urn:c\"}, {exchange: {resource: \"urn:x\"}}]",
            client: "")
        let client = try #require(try ConfigurationFixture.load(file).providers.first?.settings.clients.first)
        #expect(client.targetResources == ["urn:b", "urn:a", "urn:c"])
        #expect(client.profile.scope.last == "read" && client.targets.count == 4)
    }

    @Test(
        "The resource or scope of an API's token changes → counts as a change of sign-ins; an audience or exchange → does not"
    )
    func paths() {
        for path in [
            "upstreams.a.token.resource", "upstreams.a.b.token.scope", "upstreams.a.token.resource[1]",
            "backends.a.tokens[0].resource", "backends.a.tokens[3].scope[0]",
        ] { #expect(TargetPath.isOfSignIn(path), "\(path)") }
        for path in [
            "upstreams.a.token.exchange.resource", "backends.a.tokens[0].exchange.scope", "upstreams.a.token.audience",
            "providers.a.clients.b.scope", "upstreams.a.provider", "backends.a.tokens[0].audience",
        ] { #expect(!TargetPath.isOfSignIn(path), "\(path)") }
    }
}
