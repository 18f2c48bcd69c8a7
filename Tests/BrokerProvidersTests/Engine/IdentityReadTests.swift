import Broker
import Sandbox
import Testing

@testable import BrokerProviders

/// Reads of the identity with a new access token, and the metadata's PKCE methods at the start of a login.
@Suite("Identity reads with a new access token", .timeLimit(.minutes(2)))
struct IdentityReadTests {
    @Test(
        "The metadata's list of PKCE methods lacks S256 → a login with a challenge does not start",
        arguments: [
            (#"["plain"]"#, false), ("[]", false), (#"["plain","S256"]"#, true),
        ])
    func plainOnly(_ methods: String, _ starts: Bool) async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(
                settings: ["discovery": ["code_challenge_methods_supported": try JSON.parse(Array(methods.utf8))]],
                of: "oidc")
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                #expect((await Support.failure { try await flow.start() } == nil) == starts)
            }
        }
    }

    @Test(
        "Userinfo's sub looks like the id_token's sub but has other bytes → another user, so identity_rejected (SEC-32)"
    )
    func subjectBytes() async throws {
        try await withSandbox { sandbox in
            try sandbox.control.place(
                Fault(provider: "oidc", "claims", value: ["sub": .string("user-\u{E9}")]))
            sandbox.control.set(user: "ana", ["userinfo": ["sub": "user-e\u{301}"]])
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [
                    ClientSettings(
                        profile: Support.profile(), clientID: "mobile-app",
                        wire: WireSettings(identity: IdentitySettings(source: .userinfo)))
                ])
            try await Support.with(settings) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                guard case .identityRejected = await Support.failure({ try await flow.run() }) else {
                    return #expect(Bool(false))
                }
            }
        }
    }
}
