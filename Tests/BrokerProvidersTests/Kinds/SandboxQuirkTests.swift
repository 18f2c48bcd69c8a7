import Broker
import Sandbox
import Testing

@testable import BrokerProviders

/// Each quirk of the sandbox, by its name, in a whole sign-in.
@Suite("Sign-ins with quirks of the sandbox", .timeLimit(.minutes(2)))
struct SandboxQuirkTests {
    private func signIn(_ fault: Fault, userinfo: Bool = false, isNew: Bool = false) async throws -> Result<
        ProviderIdentity, ProviderFailure
    > {
        try await withSandbox { sandbox in
            try sandbox.control.place(fault)
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [
                    ClientSettings(
                        profile: Support.profile(), clientID: "mobile-app",
                        wire: WireSettings(identity: IdentitySettings(source: userinfo ? .userinfo : .idToken)))
                ])
            return try await Support.with(settings) { client in
                var flow = Flow(provider: try #require(client as? any CodeExchanging))
                flow.isNew = isNew
                do { return .success(try await flow.run().identity) } catch let failure as ProviderFailure {
                    return .failure(failure)
                }
            }
        }
    }

    @Test(
        "A claim of the id_token, or scope in a token answer, occurs twice → sign-in refused, and the failure names the member"
    )
    func twice() async throws {
        for (fault, words) in [
            (Fault(provider: "oidc", "duplicate-claim"), "stands twice"),
            (Fault(provider: "oidc", "duplicate-scope"), "the member /scope stands twice"),
        ] {
            guard case .failure(let failure) = try await signIn(fault) else { return #expect(Bool(false)) }
            #expect(failure.detail.contains(words), "\(failure.detail)")
        }
    }

    @Test(
        "An id_token, key set, metadata or encoding with a quirk that the broker tolerates → the sign-in succeeds",
        arguments: [
            "null-claims", "null-header", "large-claims", "x5c-header", "half-emoji", "alg-ed25519", "jwks-nulls",
            "jwks-padded", "jwks-base64", "jwks-twice", "jwks-strangers", "discovery-unusable", "discovery-empty",
            "byte-order-mark", "x-gzip", "gzip-members", "raw-deflate",
        ])
    func accepted(_ name: String) async throws {
        #expect(try await signIn(Fault(provider: "oidc", name)).get().subject == "user-ana")
    }

    @Test(
        "Userinfo with a tolerated quirk → the sign-in succeeds; email_verified is the text false → the address is not verified",
        arguments: [
            "userinfo-error-ok", "userinfo-half-emoji", "userinfo-verified-text", "byte-order-mark", "raw-deflate",
        ])
    func userinfo(_ name: String) async throws {
        let identity = try await signIn(Fault(provider: "oidc", endpoint: "userinfo", name), userinfo: true).get()
        #expect(identity.subject == "user-ana")
        guard name == "userinfo-verified-text" else { return }
        #expect(identity.claims.first { $0.name == "email_verified" }?.value == .bool(false))
    }

    @Test(
        "Userinfo refuses a new token one time → the user is signed in; refuses it every time → the sign-in is refused")
    func notYet() async throws {
        let late = Fault(provider: "oidc", "userinfo-not-yet", times: 1)
        #expect(try await signIn(late, userinfo: true, isNew: true).get().subject == "user-ana")
        guard case .failure = try await signIn(Fault(provider: "oidc", "userinfo-not-yet"), userinfo: true, isNew: true)
        else { return #expect(Bool(false)) }
    }

    @Test(
        "A revocation's answer has a content coding and no body → done; a dead grant in a list of errors → found if configured"
    )
    func afterSignIn() async throws {
        try await withSandbox { sandbox in
            try sandbox.control.place(Fault(provider: "oidc", endpoint: "revoke", "empty-gzip"))
            try sandbox.control.place(Fault(provider: "oidc", "dead-grant"))
            let place = DeadGrantPlace(pointer: "/errors/*/errorType", values: ["invalid_grant"])
            for places in [[], [place]] {
                let settings = ProviderSettings(
                    name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                    clients: [
                        ClientSettings(
                            profile: Support.profile(), clientID: "mobile-app",
                            wire: WireSettings(tokenResponse: TokenResponseSettings(deadGrants: places)))
                    ])
                try await Support.with(settings) { client in
                    let revoker = try #require(client as? any TokenRevoking)
                    try await revoker.revoke(
                        TokenSet(accessToken: Secret("at-1")), client: Support.ios, by: Support.deadline)
                    let refresher = try #require(client as? any TokenRefreshing)
                    let failure = await Support.failure {
                        try await refresher.refresh(Support.refresh(), by: Support.deadline)
                    }
                    guard case .rejected(let refusal) = failure else { return #expect(Bool(false)) }
                    #expect(refusal.isInvalidGrant == !places.isEmpty)
                }
            }
        }
    }

    @Test("email_verified in the id_token is the text false → the e-mail address is not verified (SEC-33)")
    func verdict() async throws {
        let identity = try await signIn(Fault(provider: "oidc", "verified-text")).get()
        #expect(identity.claims.first { $0.name == "email_verified" }?.value == .bool(false))
    }
}
