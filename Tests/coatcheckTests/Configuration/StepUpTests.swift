import Broker
import Testing

@testable import coatcheck

/// The demands on sign-ins in a configuration, and the providers that have to meet them.
@Suite("Configurations of step-ups", .timeLimit(.minutes(1)))
struct StepUpConfigurationTests {
    private func problems(
        _ require: String, backend: String = "", provider: String = "", may: String = "forward-auth",
        client: String? = nil
    ) -> [String] {
        let more = """
            upstreams: {api: {base_url: "https://api.example.com", provider: example, allow: ["POST /pay/**"], require: \(require)}}
            backends: {orders: {sha256: 1fc72e39e16a2f72e5a5382851ff187f11feac41a2a5901c39579c46c9edbc6d, may: [\(may)]\(backend)}}

            """
        var text = ConfigurationFixture.minimal
            .replacingFirst("providers:\n  example:\n", with: more + "providers:\n  example:\n\(provider)")
        if let client {
            text = text.replacingFirst("        auth: none\n", with: "        auth: none\n        \(client)\n")
        }
        do throws(ConfigurationFailure) {
            return try ConfigurationFixture.load(text).warnings.map { "\($0.path) \($0.message)" }
        } catch {
            return error.problems.filter { $0.severity == .error }.map { "\($0.path) \($0.message)" }
        }
    }

    @Test("A `require` entry is malformed, cannot be met by the provider, or matches no allowed call → refused")
    func refused() {
        let none = "    step_up: {acr: false, max_age: false}\n"
        for (require, backend, provider, words) in [
            ("[{allow: \"GET /pay/1\", max_age: 5m}]", "", "", "upstreams.api.require[0] is an entry for calls"),
            ("[{allow: \"POST /pay/1\", max_age: 59s}]", "", "", "max_age"),
            ("[{allow: \"POST /pay/1\"}]", "", "", "needs `acr`, `max_age` or `presence: true`"),
            ("[{allow: \"POST /pay/1\", presence: false}]", "", "", "needs `acr`, `max_age` or `presence: true`"),
            ("[{allow: \"POST /pay/1\", acr: [a, b, c, d, e, f, g, h, i]}]", "", "", "acr has to be 1 to 8 words"),
            ("[{allow: \"POST /pay/1\", acr: []}]", "", "", "acr has to be 1 to 8 words"),
            ("[{allow: \"POST /pay/1\", acr: \"\"}]", "", "", "acr has to be 1 to 8 words"),
            ("[{allow: \"POST /pay/1\", acr: [], max_age: 5m}]", "", "", "acr has to be 1 to 8 words"),
            ("[]", ", require: {acr: []}", "", "acr has to be 1 to 8 words"),
            ("[{allow: \"pay\", acr: [mfa]}]", "", "", "upstreams.api.require"),
            (
                "[{allow: \"POST /pay/1\", presence: true, acr: [mfa]}]", "", "",
                "demands presence, which only bound sessions have"
            ),
            (
                "[]", ", require: {presence: true}", "",
                "presence is demanded for one request, which only a gateway knows"
            ),
            ("[{allow: \"POST /pay/1\", acr: [mfa]}]", "", none, "demands what provider `example` cannot do"),
            ("[]", ", require: {acr: [mfa]}", none, "backends.orders.require demands what none"),
            ("[]", ", require: {}", "", "needs `acr`, `max_age` or both"),
        ] {
            let found = problems(require, backend: backend, provider: provider)
            #expect(found.contains { $0.contains(words) }, "\(require) \(backend): \(found)")
        }
    }

    @Test(
        "An upstream and a backend demand sign-ins, and sessions have no key → two warnings that a copied cookie is enough"
    )
    func warned() {
        let found = problems("[{allow: \"POST /pay/1\", acr: [mfa], max_age: 5m}]", backend: ", require: {max_age: 1h}")
        #expect(found.count { $0.contains("is met by a copy of the cookie") } == 2, "\(found)")
        #expect(!found.contains { $0.contains("gone round") }, "\(found)")
    }

    @Test(
        "An upstream demands a sign-in, and apps or backends get its access token → a warning that the token bypasses the demand"
    )
    func goneRound() {
        let gone = "upstreams.api.require is gone round with the access token itself"
        let require = "[{allow: \"POST /pay/1\", max_age: 5m}]"
        func warnings(
            _ require: String, backend: String = "", may: String = "forward-auth", client: String? = nil
        ) -> [String] {
            problems(require, backend: backend, may: may, client: client).filter { $0.hasPrefix(gone) }
        }
        let handing = "hand_out_access_token: true"
        #expect(warnings("[]", client: handing).isEmpty)
        #expect(warnings(require).isEmpty)
        let client = warnings(require, client: handing)
        #expect(client.count == 1 && client[0].contains("`hand_out_access_token: true`"), "\(client)")
        for (backend, may) in [(", forward_access_token: true", "forward-auth"), ("", "token")] {
            let found = warnings(require, backend: backend, may: may)
            #expect(found.count == 1 && found[0].contains("backend `orders`"), "\(found)")
            #expect(warnings(require, backend: backend + ", require: {max_age: 5m}", may: may).isEmpty)
        }
        let presence = "[{allow: \"POST /pay/1\", presence: true}]"
        let bound = warnings(
            presence, backend: ", forward_access_token: true, require: {max_age: 5m}",
            client: "binding: {mode: enforce}")
        #expect(bound.count == 1, "\(bound)")
    }
}
