import Broker
import Sandbox
import Testing

@testable import BrokerProviders

/// The cases for relying parties of the OpenID conformance suite, and further cases.
///
/// The sandbox plays each misbehaviour.
@Suite(
    "OpenID Connect against a misbehaving provider", .countingCases("OpenID relying-party cases"),
    .timeLimit(.minutes(2)))
struct OIDCConformanceTests {
    /// The outcome of a login against a sandbox with the given faults.
    private func login(
        _ faults: [Fault], issuer path: String = "/oidc", wire: WireSettings = WireSettings(),
        userSettings: JSON? = nil, prepare: (RunningSandbox) -> Void = { _ in }
    ) async throws -> Result<ProviderIdentity, ProviderFailure> {
        try await withSandbox { sandbox in
            for fault in faults { try sandbox.control.place(fault) }
            if let userSettings { sandbox.control.set(settings: userSettings, of: "oidc") }
            prepare(sandbox)
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + path,
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app", wire: wire)])
            return try await Support.with(settings) { client in
                let provider = try #require(client as? any CodeExchanging)
                let flow = Flow(provider: provider)
                do { return .success(try await flow.run().identity) } catch let failure as ProviderFailure {
                    return .failure(failure)
                }
            }
        }
    }

    private func isIdentityRejected(_ result: Result<ProviderIdentity, ProviderFailure>) -> Bool {
        if case .failure(.identityRejected) = result { true } else { false }
    }

    static let refusedClaims = [
        "invalid-iss", "missing-iss", "missing-aud", "invalid-aud", "invalid-secondary-aud", "wrong-azp",
        "missing-iat", "future-iat", "old-iat", "nbf-future", "missing-sub", "empty-sub", "number-sub", "long-sub",
        "expired", "missing-exp", "exp-string", "nonce-invalid", "nonce-missing", "invalid-athash", "no-id-token",
    ]

    @Test(
        "An id_token with a wrong claim → identity_rejected (SEC-28, SEC-29, SEC-30, SEC-31)", arguments: refusedClaims
    )
    func claims(_ fault: String) async throws {
        let result = try await login([Fault(provider: "oidc", fault)])
        #expect(isIdentityRejected(result), "\(fault): \(result)")
    }

    static let refusedSignatures = [
        "invalid-sig-rs256", "invalid-sig-es256", "invalid-sig-ps256", "invalid-sig-eddsa", "idtoken-sig-none",
        "hs256-with-public-key", "unknown-kid", "kid-absent-multiple-jwks", "embedded-jwk", "foreign-key",
        "crit-header",
    ]

    @Test(
        "An id_token that does not verify → identity_rejected (SEC-25, SEC-26, SEC-27)", arguments: refusedSignatures)
    func signatures(_ fault: String) async throws {
        let result = try await login([Fault(provider: "oidc", fault)])
        #expect(isIdentityRejected(result), "\(fault): \(result)")
    }

    static let accepted = [
        "aud-array", "missing-athash", "kid-absent-single-jwks", "fractional-exp", "jwks-no-alg",
        "jwks-strange-keys", "no-token-type", "token-type-lower", "no-expires-in", "jku-header",
    ]

    @Test("An unusual id_token or key set that the conformance suite accepts → the login succeeds", arguments: accepted)
    func accepts(_ fault: String) async throws {
        let result = try await login([Fault(provider: "oidc", fault)])
        #expect(throws: Never.self) { try result.get() }
    }

    @Test(
        "An id_token signed with RS256, PS256, ES256 or EdDSA → accepted",
        arguments: ["RS256", "PS256", "ES256", "EdDSA"])
    func algorithms(_ algorithm: String) async throws {
        let result = try await login([], userSettings: ["alg": .string(algorithm)])
        #expect(throws: Never.self) { try result.get() }
    }

    @Test("An id_token has a right signature, but with an algorithm that is not configured → refused (SEC-25)")
    func algorithmNotConfigured() async throws {
        let wire = WireSettings(idToken: IDTokenSettings(algorithms: [.rs256]))
        #expect(isIdentityRejected(try await login([], wire: wire, userSettings: ["alg": "ES256"])))
    }

    @Test(
        "An id_token with a second audience, and the client as azp → accepted if that audience is trusted, otherwise refused"
    )
    func trustedAudience() async throws {
        let fault = Fault(provider: "oidc", "secondary-aud-azp")
        #expect(isIdentityRejected(try await login([fault])))
        let trusting = WireSettings(idToken: IDTokenSettings(trustedAudiences: ["somebody-else"]))
        #expect(try await login([fault], wire: trusting).get().subject == "user-ana")
    }

    static let badMetadata = [
        "discovery-issuer-mismatch", "discovery-issuer-slash", "discovery-no-issuer", "discovery-not-object",
    ]

    @Test("Metadata of another issuer, or without an issuer → no login starts (SEC-23)", arguments: badMetadata)
    func metadata(_ fault: String) async throws {
        let result = try await login([Fault(provider: "oidc", fault)])
        guard case .failure(.unusable) = result else { return #expect(Bool(false), "\(fault): \(result)") }
    }

    @Test(
        "The metadata has no jwks_uri → the code is not sent, so the login can still finish",
        arguments: ["discovery-no-jwks-uri"])
    func noKeys(_ fault: String) async throws {
        let result = try await login([Fault(provider: "oidc", fault)])
        guard case .failure(.notSent) = result else { return #expect(Bool(false), "\(result)") }
    }

    static let userinfoFaults = [
        "userinfo-invalid-sub", "userinfo-missing-sub", "userinfo-sub-number", "userinfo-not-object",
    ]

    @Test(
        "Userinfo with another subject, or without a usable subject → identity_rejected (SEC-32)",
        arguments: userinfoFaults)
    func userinfo(_ fault: String) async throws {
        let wire = WireSettings(identity: IdentitySettings(source: .userinfo))
        let result = try await login([Fault(provider: "oidc", fault)], wire: wire)
        #expect(isIdentityRejected(result), "\(fault): \(result)")
    }

    @Test("Signed userinfo → verified and used (SEC-32)")
    func signedUserinfo() async throws {
        let wire = WireSettings(identity: IdentitySettings(source: .userinfo))
        let identity = try await login([Fault(provider: "oidc", "userinfo-signed")], wire: wire).get()
        #expect(identity.subject == "user-ana")
    }

    @Test(
        "Signed userinfo of another issuer, or for another client → identity_rejected (SEC-32)",
        arguments: [
            ["iss": "https://evil.example"], ["iss": 7], ["aud": "somebody-else"], ["aud": ["somebody-else", 7]],
            ["aud": []],
        ] as [JSON])
    func foreignUserinfo(_ claims: JSON) async throws {
        let wire = WireSettings(identity: IdentitySettings(source: .userinfo))
        let result = try await login([Fault(provider: "oidc", "userinfo-signed")], wire: wire) {
            $0.control.set(user: "ana", ["userinfo": claims])
        }
        guard case .failure(.identityRejected(let detail, _)) = result else { return #expect(Bool(false), "\(result)") }
        #expect(detail.hasPrefix("userinfo: iss") || detail.hasPrefix("userinfo: aud"))
    }

    @Test("An id_token's sid of up to 4 KiB → kept; a longer, empty or numeric sid → reported as unusable (SEC-68)")
    func sid() async throws {
        for (sid, kept) in [
            (JSON.string(String(repeating: "s", count: 272)), true),
            (.string(String(repeating: "s", count: 4096)), true),
            (.string(String(repeating: "s", count: 4097)), false), ("", false), (7, false),
        ] {
            let identity = try await login([Fault(provider: "oidc", "claims", value: ["sid": sid])]).get()
            #expect(identity.sid == (kept ? sid.text : nil) && identity.sidIsUnusable == !kept)
        }
        let identity = try await login([Fault(provider: "oidc", "claims", value: ["sid": .null])]).get()
        #expect(identity.sid == nil && !identity.sidIsUnusable)
    }

    @Test("A login with OpenID Connect → the identity has the subject, the e-mail address and the sid")
    func success() async throws {
        let identity = try await login([]).get()
        #expect(identity.subject == "user-ana")
        #expect(identity.claims.first { $0.name == "email" }?.value == .string("ana@example.org"))
        #expect(identity.sid != nil)
        #expect(identity.unverified.isEmpty)
    }

    @Test(
        "The provider's keys rotate between two logins → one more fetch of the keys, and the login succeeds (SEC-27)",
        arguments: [false, true])
    func rotation(_ keepOld: Bool) async throws {
        try await withSandbox { sandbox in
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                _ = try await flow.run()
                let before = sandbox.control.count("oidc", "jwks")
                sandbox.control.rotateKeys("oidc", keepOld: keepOld)
                _ = try await flow.run()
                _ = try await flow.run()
                #expect(sandbox.control.count("oidc", "jwks") == before + 1)
            }
        }
    }

    @Test("Twelve id_tokens with an unknown kid → three more key fetches (SEC-27)")
    func flood() async throws {
        try await withSandbox { sandbox in
            try sandbox.control.place(Fault(provider: "oidc", "unknown-kid"))
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                for _ in 0..<12 { _ = await Support.failure { try await flow.run() } }
                #expect(sandbox.control.count("oidc", "jwks") == 4)
            }
        }
    }

    @Test("An id_token with a forged alg, then a good id_token → the good id_token is accepted (library note 7)")
    func poisoning() async throws {
        try await withSandbox { sandbox in
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try sandbox.control.place(Fault(provider: "oidc", "alg-header", times: 1, value: "PS256"))
            try await Support.with(settings) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                let failure = await Support.failure { try await flow.run() }
                guard case .identityRejected = failure else {
                    return #expect(Bool(false), "\(String(describing: failure))")
                }
                _ = try await flow.run()
            }
        }
    }
}
