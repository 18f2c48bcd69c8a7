import Broker
import Sandbox
import Testing

@testable import BrokerProviders

/// The OpenID conformance suite's modules for relying parties that the sandbox can play, by their names.
///
/// The modules about log-outs need a session or a page, so the scenarios `backchannel-logout.sh` and `log-out.sh` run
/// them. The steps of these scenarios have the modules' names.
@Suite(
    "Relying-party modules of the OpenID conformance suite", .countingCases("OpenID relying-party cases"),
    .timeLimit(.minutes(2)))
struct RelyingPartyModulesTests {
    /// A module: the behaviour of its provider, and whether the login succeeds.
    struct Module: Sendable, CustomTestStringConvertible {
        let name: String
        var faults: [String] = []
        var settings: JSON = [:]
        var usesUserinfo = false
        var authentication = ClientAuthentication.none
        var passes = false
        var testDescription: String { name }
    }

    static let modules: [Module] = [
        Module(name: "oidcc-client-test", passes: true),
        Module(name: "oidcc-client-test-invalid-iss", faults: ["invalid-iss"]),
        Module(name: "oidcc-client-test-missing-sub", faults: ["missing-sub"]),
        Module(name: "oidcc-client-test-invalid-aud", faults: ["invalid-aud"]),
        Module(name: "oidcc-client-test-missing-aud", faults: ["missing-aud"]),
        Module(name: "oidcc-client-test-missing-iat", faults: ["missing-iat"]),
        Module(name: "oidcc-client-test-kid-absent-single-jwks", faults: ["kid-absent-single-jwks"], passes: true),
        Module(name: "oidcc-client-test-kid-absent-multiple-jwks", faults: ["kid-absent-multiple-jwks"]),
        Module(name: "oidcc-client-test-idtoken-sig-rs256", settings: ["alg": "RS256"], passes: true),
        Module(name: "oidcc-client-test-idtoken-sig-none", faults: ["idtoken-sig-none"]),
        Module(
            name: "oidcc-client-test-invalid-sig-rs256", faults: ["invalid-sig-rs256"], settings: ["alg": "RS256"]),
        Module(
            name: "oidcc-client-test-invalid-sig-es256", faults: ["invalid-sig-es256"], settings: ["alg": "ES256"]),
        Module(name: "oidcc-client-test-nonce-invalid", faults: ["nonce-invalid"]),
        Module(name: "oidcc-client-test-invalid-athash", faults: ["invalid-athash"]),
        Module(
            name: "oidcc-client-test-client-secret-basic",
            authentication: .clientSecretBasic(Secret("wq8ZrT5nLk2YvB7x:c/d+e&f")), passes: true),
        Module(name: "oidcc-client-test-userinfo-invalid-sub", faults: ["userinfo-invalid-sub"], usesUserinfo: true),
        Module(
            name: "oidcc-client-test-userinfo-signed", faults: ["userinfo-signed"], usesUserinfo: true, passes: true),
        Module(name: "oidcc-client-test-scope-userinfo-claims", usesUserinfo: true, passes: true),
        Module(name: "oidcc-client-test-discovery-openid-config", passes: true),
        Module(name: "oidcc-client-test-discovery-jwks-uri-keys", faults: ["jwks-strange-keys"], passes: true),
        Module(name: "oidcc-client-test-discovery-issuer-mismatch", faults: ["discovery-issuer-mismatch"]),
        Module(
            name: "oidcc-client-test-signing-key-rotation-just-before-signing",
            faults: ["signing-key-rotation-just-before-signing"], passes: true),
        Module(name: "oidcc-client-test-signing-key-rotation", faults: ["signing-key-rotation"], passes: true),
    ]

    @Test(
        "A relying-party module of the conformance suite → the login succeeds or fails as the suite requires",
        arguments: modules
    )
    func module(_ module: Module) async throws {
        try await withSandbox { sandbox in
            let secret: JSON = ["secret": "wq8ZrT5nLk2YvB7x:c/d+e&f", "auth": "client_secret_basic"]
            sandbox.control.set(
                client: "mobile-app", of: "oidc", module.authentication.isNone ? [:] : secret)
            sandbox.control.set(settings: module.settings, of: "oidc")
            var wire = WireSettings()
            if module.usesUserinfo { wire.identity = IdentitySettings(source: .userinfo) }
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [
                    ClientSettings(
                        profile: Support.profile(), clientID: "mobile-app", authentication: module.authentication,
                        wire: wire)
                ])
            try await Support.with(settings) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                // A rotation replaces keys that the broker knows, so one login fetches the keys first.
                if module.name.contains("rotation") { _ = try await flow.run() }
                for fault in module.faults { try sandbox.control.place(Fault(provider: "oidc", fault)) }
                let failure = await Support.failure { try await flow.run() }
                #expect((failure == nil) == module.passes, "\(module.name): \(String(describing: failure))")
                guard !module.passes else { return }
                switch failure {
                case .identityRejected, .unusable: break
                default: Issue.record("\(module.name): \(String(describing: failure))")
                }
            }
        }
    }

    @Test(
        "The conformance suite's refresh modules → a good answer continues the session; another subject or issuer does not",
        arguments: [
            ("oidcc-client-test-refresh-token", ""),
            ("oidcc-client-test-refresh-token-invalid-sub", "refresh-invalid-sub"),
            ("oidcc-client-test-refresh-token-invalid-issuer", "refresh-invalid-issuer"),
        ])
    func refresh(_ name: String, _ fault: String) async throws {
        try await withSandbox { sandbox in
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                let (tokens, identity) = try await Flow(provider: #require(client as? any CodeExchanging)).run()
                if !fault.isEmpty { try sandbox.control.place(Fault(provider: "oidc", fault)) }
                let refresher = try #require(client as? any TokenRefreshing)
                let fresh = try await refresher.refresh(
                    Support.refresh(try #require(tokens.refreshToken).reveal()), by: Support.deadline)
                let found = try await refresher.subjectOfRefreshed(
                    fresh, before: tokens, client: Support.ios)
                #expect((found == .subject(identity.subject)) == fault.isEmpty, "\(name): \(found)")
            }
        }
    }
}

extension ClientAuthentication {
    fileprivate var isNone: Bool { if case .none = self { true } else { false } }
}
