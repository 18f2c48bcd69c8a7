import Broker
import Sandbox
import Testing

@testable import BrokerProviders

/// Presets made from documents only, against a sandbox that plays each vendor's quirks.
@Suite("Presets that follow the vendor's documents and were never tried with the vendor", .timeLimit(.minutes(2)))
struct UntriedPresetTests {
    /// The preset's settings, with the sandbox's addresses in place of the vendor's.
    private func settings(_ name: String, _ base: String, secret: Bool = true) throws -> ProviderSettings {
        let preset = try #require(Presets.named(name))
        func moved(_ url: EndpointURL?) -> EndpointURL? {
            url.flatMap { url in
                let path = url.text.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: true).last ?? ""
                return EndpointURL("\(base)/\(name)/\(path)")
            }
        }
        var wire = preset.wire
        wire.identity.url = moved(wire.identity.url)
        let endpoints = EndpointSettings(
            authorization: moved(preset.endpoints.authorization), token: moved(preset.endpoints.token),
            userinfo: moved(preset.endpoints.userinfo),
            revocation: moved(preset.endpoints.revocation(of: "web"))?.text)
        let profile = Support.profile(nonce: preset.nonce) {
            $0.scope = preset.scope
            $0.pkce = preset.pkce
        }
        var client = ClientSettings(
            profile: profile, clientID: "web",
            authentication: preset.secretInBody
                ? .clientSecretPost(Secret("web-secret")) : .clientSecretBasic(Secret("web-secret")), wire: wire)
        if name == "ebay" { client.redirectName = "Sandbox-RuName" }
        return ProviderSettings(
            name: ProviderName(unchecked: name), service: preset.service,
            issuer: preset.service.kind == .oidc ? base + "/" + name : nil, endpoints: endpoints, clients: [client])
    }

    private func flow(_ client: any ProviderClient, _ name: String) throws -> Flow {
        let preset = try #require(Presets.named(name))
        var flow = Flow(provider: try #require(client as? any CodeExchanging))
        if !preset.nonce { flow.nonce = nil }
        if preset.pkce == .unsupported { flow.verifier = nil }
        flow.scope = preset.scope
        return flow
    }

    @Test(
        "A sign-in, a refresh and a revocation with a preset, in the vendor's form → succeed with the expected subject",
        arguments: [
            ("salesforce", "!", "user-ana"), ("cognito", "", "user-ana"), ("tiktok", "act.!", "user-ana"),
            ("amazon", "Atza|", "amzn1.account.user-ana"), ("ebay", "v^1.1#", "user-ana"), ("asana", "2/1201:", nil),
            ("fitbit", "", "user-ana"), ("hubspot", "", nil),
        ])
    func signIn(_ name: String, _ mark: String, _ subject: String?) async throws {
        try await withSandbox { sandbox in
            try await Support.with(try settings(name, sandbox.baseURL)) { client in
                let (tokens, identity) = try await flow(client, name).run()
                #expect(tokens.accessToken.reveal().contains(mark) || mark.isEmpty)
                if let subject { #expect(identity.subject == subject) } else { #expect(Int(identity.subject) != nil) }
                let refresher = try #require(client as? any TokenRefreshing)
                let refresh = try #require(tokens.refreshToken)
                let fresh = try await refresher.refresh(Support.refresh(refresh.reveal()), by: Support.deadline)
                #expect(fresh.accessToken.reveal() != tokens.accessToken.reveal())
                let revoker = try #require(client as? any TokenRevoking)
                try await revoker.revoke(tokens, client: Support.ios, by: Support.deadline)
            }
        }
    }

    @Test("Fitbit: the preset's revocation → reaches all tokens of the user (decision 21)")
    func fitbitRevocation() {
        #expect(Presets.named("fitbit")?.wire.revocation.reaches == .user)
    }

    @Test("Cognito: email_verified is the text `false` → the e-mail address is not verified (SEC-33)")
    func cognitoVerdict() async throws {
        try await withSandbox { sandbox in
            var settings = try settings("cognito", sandbox.baseURL)
            settings.clients[0].wire.identity.source = .userinfo
            try await Support.with(settings) { client in
                for (user, isVerified) in [("ben", false), ("ana", true)] {
                    var flow = try flow(client, "cognito")
                    flow.user = user
                    let identity = try await flow.run().identity
                    #expect(identity.claims.first { $0.name == "email_verified" }?.value == .bool(isVerified))
                }
            }
        }
    }

    @Test("TikTok: every call → sends client_key instead of client_id")
    func tiktokNames() async throws {
        try await withSandbox { sandbox in
            try await Support.with(try settings("tiktok", sandbox.baseURL)) { client in
                let flow = try flow(client, "tiktok")
                let url = try await flow.start().url.reveal()
                #expect(url.contains("client_key=web") && !url.contains("client_id"))
                let tokens = try await flow.run().tokens
                let revoker = try #require(client as? any TokenRevoking)
                try await revoker.revoke(tokens, client: Support.ios, by: Support.deadline)
                for endpoint in ["token", "revoke"] {
                    let body = try #require(
                        sandbox.control.requests(provider: "tiktok", endpoint: endpoint).first?.bodyText)
                    #expect(body.contains("client_key=web") && !body.contains("client_id"))
                }
            }
        }
    }

    @Test("eBay: the authorization URL and the token request → have the RuName instead of the redirect URI")
    func ebayName() async throws {
        try await withSandbox { sandbox in
            try await Support.with(try settings("ebay", sandbox.baseURL)) { client in
                let flow = try flow(client, "ebay")
                #expect(try await flow.start().url.reveal().contains("redirect_uri=Sandbox-RuName&"))
                _ = try await flow.run()
                let body = try #require(sandbox.control.requests(provider: "ebay", endpoint: "token").first?.bodyText)
                #expect(body.contains("redirect_uri=Sandbox-RuName"))
            }
        }
    }

    @Test(
        "Fitbit or HubSpot refuses a refresh token in the form of its documents → a dead grant (guarantee 2)",
        arguments: [("fitbit", true), ("hubspot", true)])
    func deadGrants(_ name: String, _ isDead: Bool) async throws {
        try await withSandbox { sandbox in
            try await Support.with(try settings(name, sandbox.baseURL)) { client in
                let refresher = try #require(client as? any TokenRefreshing)
                let failure = await Support.failure {
                    try await refresher.refresh(Support.refresh("rt-unknown"), by: Support.deadline)
                }
                guard case .rejected(let refusal) = failure else {
                    return #expect(Bool(false), "\(String(describing: failure))")
                }
                #expect(refusal.isInvalidGrant == isDead && !refusal.mayMeanDeadGrant)
            }
        }
    }
}
