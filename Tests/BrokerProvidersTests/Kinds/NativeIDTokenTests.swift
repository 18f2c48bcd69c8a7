import Broker
import BrokerTestSupport
import Crypto
import Sandbox
import Synchronization
import Testing

@testable import BrokerProviders

/// The id_tokens of native SDKs, against the sandbox.
@Suite("Sign-ins with an id_token from a native SDK", .timeLimit(.minutes(2)))
struct NativeIDTokenTests {
    /// The kind of provider that the sandbox plays.
    enum Kind: String, CaseIterable, Sendable { case oidc, google, apple, facebook }

    static let nonce = "nonce-0123456789abcdef"

    private func settings(
        _ kind: Kind, _ base: String, audiences: [String] = [], wire change: (inout WireSettings) -> Void = { _ in }
    ) throws -> ProviderSettings {
        let preset = Presets.named(kind.rawValue)
        var wire = preset?.wire ?? WireSettings()
        var endpoints = EndpointSettings()
        if kind == .facebook {
            wire.idToken.issuer = base + "/facebook"
            endpoints.authorization = EndpointURL(base + "/facebook/v24.0/dialog/oauth")
            endpoints.token = EndpointURL(base + "/facebook/v24.0/oauth/access_token")
            endpoints.jwks = EndpointURL(base + "/facebook/.well-known/oauth/openid/jwks/")
        }
        change(&wire)
        var client = ClientSettings(
            profile: Support.profile { $0.nativeCode = true }, clientID: "app-1", authentication: .none, wire: wire)
        client.trustedAudiences = audiences
        return ProviderSettings(
            name: ProviderName(unchecked: kind.rawValue), service: preset?.service ?? .oidc,
            issuer: kind == .facebook ? nil : base + "/" + kind.rawValue, endpoints: endpoints, clients: [client])
    }

    private func handed(_ token: String, nonce: String = nonce) -> HandedIDToken {
        HandedIDToken(client: Support.ios, token: Secret(token), nonce: Secret(nonce))
    }

    private func refusal(
        _ client: any ProviderClient, _ token: String, nonce: String = nonce,
        mayFetchKeys: @escaping @Sendable () -> Bool = { true }
    ) async throws -> String? {
        let taking = try #require(client as? any IDTokenTaking)
        let failure = await Support.failure {
            try await taking.identify(handed(token, nonce: nonce), mayFetchKeys: mayFetchKeys)
        }
        guard let failure else { return nil }
        guard case .identityRejected(let detail, _) = failure else { return "\(failure)" }
        return detail
    }

    @Test(
        "A native id_token with a wrong claim or signature → refused, and only metadata and keys are fetched (SEC-25 … SEC-31)",
        arguments: Kind.allCases)
    func faults(_ kind: Kind) async throws {
        try await withSandbox { sandbox in
            try await Support.with(settings(kind, sandbox.baseURL)) { client async throws in
                for name in [
                    "invalid-iss", "missing-iss", "missing-aud", "invalid-aud", "invalid-secondary-aud",
                    "secondary-aud-azp",
                    "wrong-azp", "missing-iat", "future-iat", "old-iat", "nbf-future", "missing-sub", "empty-sub",
                    "expired", "missing-exp", "exp-string", "nonce-invalid", "nonce-missing", "invalid-sig-rs256",
                    "idtoken-sig-none", "hs256-with-public-key", "foreign-key", "embedded-jwk", "crit-header",
                ] {
                    try sandbox.control.place(
                        Fault(provider: kind.rawValue, endpoint: "native-id-token", name, times: 1))
                    let token = try await sandbox.control.nativeIDToken(
                        ["client_id": "app-1", "nonce": .string(Self.nonce)], of: kind.rawValue)
                    #expect(try await refusal(client, token) != nil, "\(kind) \(name)")
                }
                #expect(sandbox.control.faults.isEmpty)
                let called = Set(sandbox.control.requests(provider: kind.rawValue).map(\.endpoint))
                #expect(called.isSubset(of: ["discovery", "jwks"]))
            }
        }
    }

    @Test(
        "A native id_token is for another client or nonce → refused; is for one of the client's configured audiences → accepted"
    )
    func audiences() async throws {
        try await withSandbox { sandbox in
            func token(_ members: JSON) async throws -> String {
                let all: JSON = ["client_id": "app-1", "nonce": .string(Self.nonce)]
                return try await sandbox.control.nativeIDToken(all.merging(members), of: "google")
            }
            try await Support.with(settings(.google, sandbox.baseURL)) { client async throws in
                #expect(try await refusal(client, token(["aud": "app-2"])) == "aud is not this client")
                #expect(try await refusal(client, token(["azp": "app-2"])) == "azp is not this client")
                #expect(try await refusal(client, token([:]), nonce: "another") == "nonce is not the login's")
                #expect(try await refusal(client, token(["nonce": .null])) == "nonce is not the login's")
                #expect(try await refusal(client, token([:])) == nil)
            }
            // Google's Credential Manager has the web client's id as audience, and the Android client's id as authorized party.
            try await Support.with(settings(.google, sandbox.baseURL, audiences: ["app-2", "app-3"])) {
                client async throws in
                #expect(try await refusal(client, token(["aud": "app-2"])) == nil)
                #expect(try await refusal(client, token(["azp": "app-2"])) == nil)
                #expect(try await refusal(client, token(["aud": ["app-2", "app-1"], "azp": "app-3"])) == nil)
                #expect(try await refusal(client, token(["aud": ["app-2", "app-1"]])) == "azp is not this client")
                #expect(try await refusal(client, token(["aud": "app-4"])) == "aud is not this client")
                #expect(
                    try await refusal(client, token(["aud": ["app-1", "app-4"], "azp": "app-1"]))
                        == "aud has an audience that is not trusted")
            }
            // `trustedAudiences` may appear in `aud` next to the client's own id, but they do not replace the client's
            // id.
            try await Support.with(
                settings(.google, sandbox.baseURL) { $0.idToken.trustedAudiences = ["app-2"] }
            ) { client async throws in
                #expect(try await refusal(client, token(["aud": "app-2"])) == "aud is not this client")
                #expect(try await refusal(client, token(["azp": "app-2"])) == nil)
            }
        }
    }

    @Test(
        "A native id_token with the nonce, raw or hashed → accepted, and the identity comes only from this id_token",
        arguments: Kind.allCases)
    func identity(_ kind: Kind) async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(user: "ana", ["id": "1000001"])
            // For every configured source of the identity, the id_token is used, because there is no access token.
            let settings = try settings(kind, sandbox.baseURL) {
                if kind == .oidc { $0.identity.source = .userinfo }
            }
            try await Support.with(settings) { client async throws in
                let taking = try #require(client as? any IDTokenTaking)
                #expect(taking.takesIDTokens(of: Support.ios))
                let hash = SHA256.hash(data: Array(Self.nonce.utf8))
                let hexadecimal = hash.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
                for written in [Self.nonce, hexadecimal, Base64URL.encode(Array(hash))] {
                    let token = try await sandbox.control.nativeIDToken(
                        ["client_id": "app-1", "nonce": .string(written)], of: kind.rawValue)
                    let identity = try await taking.identify(handed(token)) { true }
                    #expect(identity.subject == (kind == .facebook ? "1000001" : "user-ana"))
                    #expect(identity.claims.first { $0.name == "email" }?.value.string == "ana@example.org")
                    #expect(identity.unverified.isEmpty)
                }
                let called = sandbox.control.requests(provider: kind.rawValue).map(\.endpoint)
                #expect(Set(called).isSubset(of: ["discovery", "jwks"]) && called.count <= 3)
            }
        }
    }

    @Test("GitHub or Slack, which have no configured issuer of id_tokens → native id_tokens are refused")
    func plainOAuth() async throws {
        for name in ["github", "slack"] {
            let preset = try #require(Presets.named(name))
            let settings = ProviderSettings(
                name: ProviderName(unchecked: name), service: preset.service, endpoints: preset.endpoints,
                clients: [
                    ClientSettings(
                        profile: Support.profile { $0.nativeCode = true }, clientID: "app-1", wire: preset.wire)
                ])
            try await Support.with(settings) { client async throws in
                #expect((client as? any IDTokenTaking)?.takesIDTokens(of: Support.ios) == false)
            }
        }
    }

    @Test(
        "A native id_token is over 12 hours old → refused even if the settings allow a day, as the record of its use may be gone"
    )
    func age() async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["id_token_lifetime": 200_000], of: "oidc")
            let token = try await sandbox.control.nativeIDToken(
                ["client_id": "app-1", "nonce": .string(Self.nonce)], of: "oidc")
            let now = Support.clock.now()
            for (age, expected) in [(0, nil), (3700, nil), (43_100, nil), (43_400, "iat is too long ago")]
                as [(Int64, String?)]
            {
                let clock = TestClock(WallTime(seconds: now.seconds + age))
                try await Support.with(
                    settings(.oidc, sandbox.baseURL) { $0.idToken.maximumAge = .seconds(86_400) }, clock: clock.waiting
                ) { client async throws in
                    #expect(try await refusal(client, token) == expected, "\(age)")
                }
            }
        }
    }

    @Test(
        "Strangers send id_tokens with unknown keys → their key fetches are charged, and logins keep their own share (SEC-27)"
    )
    func strangersKeys() async throws {
        try await withSandbox { sandbox in
            try await Support.with(settings(.oidc, sandbox.baseURL)) { client async throws in
                let asked = Mutex(0)
                for _ in 0..<6 {
                    try sandbox.control.place(
                        Fault(provider: "oidc", endpoint: "native-id-token", "unknown-kid", times: 1))
                    let token = try await sandbox.control.nativeIDToken(
                        ["client_id": "app-1", "nonce": .string(Self.nonce)], of: "oidc")
                    #expect(
                        try await refusal(client, token) {
                            asked.withLock { $0 += 1 }; return false
                        } != nil)
                    #expect(
                        try await refusal(client, token) {
                            asked.withLock { $0 += 1 }; return true
                        } != nil)
                }
                #expect(asked.withLock { $0 } == 12)
                // One fetch is for the first token. Tokens from strangers may cause three more.
                #expect(sandbox.control.count("oidc", "jwks") == 4)
                sandbox.control.rotateKeys("oidc")
                let exchanging = try #require(client as? any CodeExchanging)
                var flow = Flow(provider: exchanging)
                flow.nonce = Self.nonce
                #expect(try await flow.run().identity.subject == "user-ana")
                #expect(sandbox.control.count("oidc", "jwks") == 5)
            }
        }
    }
}
