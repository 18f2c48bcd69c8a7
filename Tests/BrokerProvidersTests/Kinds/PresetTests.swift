import Broker
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("Sign-ins with presets at the sandbox", .timeLimit(.minutes(2)))
struct PresetTests {
    /// The preset's settings, with the given issuer and endpoints in place of the vendor's.
    func settings(
        _ name: String, issuer: String? = nil, endpoints: EndpointSettings? = nil, clientID: String = "web",
        authentication: ClientAuthentication = .clientSecretPost(Secret("web-secret")),
        profile: (inout ClientProfile) -> Void = { _ in }, wire change: (inout WireSettings) -> Void = { _ in }
    ) throws -> ProviderSettings {
        let preset = try #require(Presets.named(name))
        var wire = preset.wire
        change(&wire)
        let client = Support.profile(nonce: preset.nonce) { client in
            client.scope = preset.scope
            client.pkce = preset.pkce
            client.callbackParameters = preset.callbackParameters
            profile(&client)
        }
        return ProviderSettings(
            name: ProviderName(unchecked: name), service: preset.service, displayName: preset.displayName,
            issuer: issuer ?? preset.issuer, endpoints: endpoints ?? preset.endpoints,
            clients: [ClientSettings(profile: client, clientID: clientID, authentication: authentication, wire: wire)])
    }

    func flow(_ client: any ProviderClient, nonce: Bool = true, user: String = "ana", verifier: Bool = true)
        throws -> Flow
    {
        var flow = Flow(provider: try #require(client as? any CodeExchanging))
        if !nonce { flow.nonce = nil }
        if !verifier { flow.verifier = nil }
        flow.user = user
        flow.scope = client.profile.clients.first?.scope ?? []
        return flow
    }

    @Test(
        "Every address of every preset → is a URL that the broker may call",
        arguments: [
            ("apple", 1), ("github", 6), ("slack", 5), ("facebook", 4), ("tiktok", 5), ("amazon", 4), ("ebay", 4),
            ("asana", 5), ("fitbit", 5), ("hubspot", 4),
        ])
    func addresses(_ name: String, _ count: Int) throws {
        let preset = try #require(Presets.named(name))
        let (endpoints, identity) = (preset.endpoints, preset.wire.identity)
        let all = [
            endpoints.authorization, endpoints.token, endpoints.userinfo, endpoints.jwks,
            endpoints.revocation(of: "cid-1"), identity.url, identity.emailsURL,
        ]
        #expect(all.count { $0 != nil } == count)
    }

    @Test(
        "The settings of any preset → a client is made, with the preset's display name",
        arguments: Presets.all.map(\.name))
    func all(_ name: String) async throws {
        let issuers = [
            "cloudentity": "https://t.eu.authz.cloudentity.io/t/w",
            "cognito": "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_abc",
        ]
        let settings = try settings(name, issuer: issuers[name])
        try await Support.with(settings) { client in
            #expect(client.profile.displayName == Presets.named(name)?.displayName)
        }
    }

    @Test("Google: a login → asks for offline access and consent; a refresh → the refresh token stays the same")
    func google() async throws {
        try await withSandbox { sandbox in
            try await Support.with(try settings("google", issuer: sandbox.baseURL + "/google")) { client in
                let flow = try flow(client)
                let url = try await flow.start().url.reveal()
                #expect(url.contains("&access_type=offline&prompt=consent"))
                let (tokens, identity) = try await flow.run()
                #expect(identity.subject == "user-ana")
                let refresh = try #require(tokens.refreshToken)
                let refresher = try #require(client as? any TokenRefreshing)
                let fresh = try await refresher.refresh(Support.refresh(refresh.reveal()), by: Support.deadline)
                #expect(fresh.refreshToken == nil)
                #expect(fresh.accessToken.reveal() != tokens.accessToken.reveal())
                try await #require(client as? any TokenRevoking).revoke(
                    tokens, client: Support.ios, by: Support.deadline)
                #expect(
                    sandbox.control.requests(provider: "google", endpoint: "revoke").map { $0.form["token_type_hint"] }
                        == ["refresh_token", "access_token"])
            }
        }
    }

    @Test("Apple: a login → form post, a JWT as client secret, the name as an unverified claim, and revocation")
    func apple() async throws {
        try await withSandbox { sandbox in
            let key = sandbox.control.clientKey
            var settings = try settings(
                "apple", issuer: sandbox.baseURL + "/apple", endpoints: EndpointSettings(), clientID: "com.example.app",
                authentication: .apple(teamID: "TEAM000001", keyID: key.id, key: Secret(key.pem)))
            settings.endpoints.revocation = nil
            try await Support.with(settings) { client in
                let flow = try flow(client)
                #expect(try await flow.start().url.reveal().contains("&response_mode=form_post"))
                let (tokens, identity) = try await flow.run()
                #expect(identity.subject == "user-ana")
                #expect(identity.unverified.first { $0.name == "name" } != nil)
                #expect(identity.claims.first { $0.name == "name" } == nil)
                #expect(identity.claims.first { $0.name == "email_verified" }?.value == .bool(true))
                let second = try await flow.run()
                #expect(second.identity.unverified.isEmpty)
                try await #require(client as? any TokenRevoking).revoke(
                    tokens, client: Support.ios, by: Support.deadline)
                let request = try #require(sandbox.control.requests(provider: "apple", endpoint: "token").first)
                #expect(request.header("Authorization") == nil)
                #expect(request.form["client_secret"]?.split(separator: ".").count == 3)
            }
        }
    }

    private func facebook(_ base: String) throws -> ProviderSettings {
        let graph = base + "/facebook/v24.0"
        return try settings(
            "facebook",
            endpoints: EndpointSettings(
                authorization: EndpointURL(graph + "/dialog/oauth"), token: EndpointURL(graph + "/oauth/access_token"))
        ) { _ in
        } wire: {
            $0.identity.url = EndpointURL(graph + "/me?fields=id,name,email")
        }
    }

    @Test(
        "Facebook refuses a wrong secret, a dead code or a dead token in the form of the Graph API → the broker sees a rejection"
    )
    func facebookRefusals() async throws {
        try await withSandbox { sandbox in
            var settings = try facebook(sandbox.baseURL)
            try await Support.with(settings) { client in
                let flow = try flow(client, nonce: false)
                let exchanger = try #require(client as? any CodeExchanging)
                for failure in [
                    await Support.failure { try await flow.redeem(try FormPairs(parsing: "code=nobody-issued-this")) },
                    await Support.failure {
                        try await exchanger.identify(
                            TokenSet(accessToken: Secret("dead")), Support.context(), by: Support.deadline)
                    },
                ] {
                    switch failure {
                    case .rejected, .identityRejected: break
                    default: Issue.record("\(String(describing: failure))")
                    }
                }
            }
            settings.clients[0].authentication = .clientSecretPost(Secret("wrong"))
            try await Support.with(settings) { client in
                let flow = try flow(client, nonce: false)
                guard case .rejected = await Support.failure({ try await flow.run() }) else {
                    return #expect(Bool(false))
                }
            }
        }
    }

    @Test("Facebook: a login → scopes with commas, secret in the body, no scope in the answer, optional e-mail address")
    func facebook() async throws {
        try await withSandbox { sandbox in
            try await Support.with(try facebook(sandbox.baseURL)) { client in
                let flow = try flow(client, nonce: false)
                #expect(try await flow.start().url.reveal().contains("scope=public_profile%2Cemail"))
                let (tokens, identity) = try await flow.run()
                #expect(Int(identity.subject) != nil && tokens.refreshToken == nil && tokens.scope == nil)
                #expect(identity.claims.contains { $0.name == "email" && $0.value == .string("ana@example.org") })
                let request = try #require(sandbox.control.requests(provider: "facebook", endpoint: "token").first)
                #expect(request.header("Authorization") == nil && request.form["client_secret"] == "web-secret")
                let without = try await self.flow(client, nonce: false, user: "cleo").run().identity
                #expect(!without.claims.contains { $0.name == "email" })
            }
        }
    }

    @Test(
        "LinkedIn: a login → without PKCE and nonce, with the secret in the body, and without revocation",
        arguments: ["", "invalid-aud"])
    func linkedin(_ fault: String) async throws {
        try await withSandbox { sandbox in
            if !fault.isEmpty { try sandbox.control.place(Fault(provider: "linkedin", fault)) }
            let settings = try settings("linkedin", issuer: sandbox.baseURL + "/linkedin/oauth")
            try await Support.with(settings) { client in
                let flow = try flow(client, nonce: false, verifier: false)
                #expect(try await !flow.start().url.reveal().contains("challenge"))
                guard fault.isEmpty else {
                    guard case .identityRejected = await Support.failure({ try await flow.run() }) else {
                        return #expect(Bool(false))
                    }
                    return
                }
                let (tokens, identity) = try await flow.run()
                #expect(identity.subject == "user-ana" && tokens.refreshToken == nil)
                let request = try #require(sandbox.control.requests(provider: "linkedin", endpoint: "token").first)
                #expect(request.header("Authorization") == nil && request.form["client_secret"] == "web-secret")
                #expect(request.form["code_verifier"] == nil)
                try await #require(client as? any TokenRevoking).revoke(
                    tokens, client: Support.ios, by: Support.deadline)
                #expect(sandbox.control.count("linkedin", "revoke") == 0)
            }
        }
    }

    @Test(
        "Microsoft: an id_token whose issuer has its own tid → accepted; a wrong or missing tid, or another issuer → refused",
        arguments: ["", "wrong-tid", "missing-tid", "invalid-iss", "claims"])
    func microsoft(_ fault: String) async throws {
        try await withSandbox { sandbox in
            // `common` stands for all tenants. So a token with `common` as `tid` and in `iss` names all tenants instead of
            // one.
            let nobody: JSON = ["tid": "common", "iss": .string(sandbox.baseURL + "/microsoft/common/v2.0")]
            if !fault.isEmpty { try sandbox.control.place(Fault(provider: "microsoft", fault, value: nobody)) }
            let settings = try settings("microsoft", issuer: sandbox.baseURL + "/microsoft/common/v2.0") { _ in
            } wire: {
                $0.idToken.issuerTemplate = sandbox.baseURL + "/microsoft/{tenantid}/v2.0"
            }
            try await Support.with(settings) { client in
                let flow = try flow(client)
                let expectation = try await flow.start().issuer
                #expect(expectation.issuer == sandbox.baseURL + "/microsoft/{tenantid}/v2.0")
                let failure = await Support.failure { try await flow.run() }
                if fault.isEmpty {
                    #expect(failure == nil, "\(String(describing: failure))")
                } else {
                    guard case .identityRejected = failure else {
                        return #expect(Bool(false), "\(String(describing: failure))")
                    }
                }
            }
        }
    }

    @Test("Microsoft: a tenant that is not listed → refused (SEC-28)")
    func microsoftTenants() async throws {
        try await withSandbox { sandbox in
            let settings = try settings("microsoft", issuer: sandbox.baseURL + "/microsoft/common/v2.0") { _ in
            } wire: {
                $0.idToken.issuerTemplate = sandbox.baseURL + "/microsoft/{tenantid}/v2.0"
                $0.idToken.tenants = ["00000000-0000-4000-8000-000000000000"]
            }
            try await Support.with(settings) { client in
                let flow = try flow(client)
                guard case .identityRejected = await Support.failure({ try await flow.run() }) else {
                    return #expect(Bool(false))
                }
            }
        }
    }

    @Test(
        "Slack: a login → sends user_scope instead of scope, and reads the token below authed_user and errors with status 200"
    )
    func slack() async throws {
        try await withSandbox { sandbox in
            let base = sandbox.baseURL + "/slack"
            let settings = try settings(
                "slack",
                endpoints: EndpointSettings(
                    authorization: EndpointURL(base + "/oauth/v2/authorize"),
                    token: EndpointURL(base + "/api/oauth.v2.access"),
                    userinfo: EndpointURL(base + "/api/users.identity"), revocation: base + "/api/auth.revoke")
            ) { _ in
            } wire: {
                $0.identity.url = EndpointURL(base + "/api/users.identity")
            }
            try await Support.with(settings) { client in
                let flow = try flow(client, nonce: false, verifier: false)
                #expect(try await flow.start().url.reveal().contains("&user_scope=identity.basic%2Cidentity.email&"))
                let callback = try await flow.callback()
                let tokens = try await flow.redeem(callback)
                #expect(tokens.scope == ["identity.basic", "identity.email"])
                let identity = try await flow.identify(tokens, callback)
                #expect(identity.subject.hasPrefix("U"))
                #expect(identity.claims.first { $0.name == "team" }?.value == .string("TFAKE0001"))
                guard case .rejected(let error) = await Support.failure({ try await flow.redeem(callback) }) else {
                    return #expect(Bool(false))
                }
                #expect(error.code == "invalid_code")
                try await #require(client as? any TokenRevoking).revoke(
                    tokens, client: Support.ios, by: Support.deadline)
                guard case .identityRejected = await Support.failure({ try await flow.identify(tokens, callback) })
                else {
                    return #expect(Bool(false))
                }
            }
        }
    }

    @Test(
        "Cloudentity, with two forms of issuer: a public client's login → succeeds, with an idempotency key and a revocation",
        arguments: [("cloudentity", "/cloudentity/example/demo"), ("cloudentity-vanity", "/demo")])
    func cloudentity(_ name: String, _ path: String) async throws {
        try await withSandbox { sandbox in
            let settings = try settings(
                "cloudentity", issuer: sandbox.baseURL + path, clientID: "mobile-app", authentication: .none)
            try await Support.with(settings) { client in
                let flow = try flow(client)
                let (tokens, identity) = try await flow.run()
                #expect(identity.subject == "user-ana")
                let request = try #require(sandbox.control.requests(provider: name, endpoint: "token").first)
                #expect(request.header("X-Idempotency-Key") == String(repeating: "k", count: 43))
                #expect(request.header("Authorization") == nil)
                #expect(request.form["client_id"] == "mobile-app")
                let refresher = try #require(client as? any TokenRefreshing)
                let refresh = try #require(tokens.refreshToken).reveal()
                let first = try await refresher.refresh(Support.refresh(refresh), by: Support.deadline)
                let again = try await refresher.refresh(Support.refresh(refresh), by: Support.deadline)
                #expect(first.refreshToken?.reveal() == again.refreshToken?.reveal())
                try await #require(client as? any TokenRevoking).revoke(
                    first, client: Support.ios, by: Support.deadline)
                let revocations = sandbox.control.requests(provider: name, endpoint: "revoke")
                #expect(revocations.allSatisfy { $0.form["token_type_hint"] == nil })
            }
        }
    }
}
