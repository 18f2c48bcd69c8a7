import Broker
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("Starting a login", .timeLimit(.minutes(2)))
struct AuthorizationTests {
    private func settings(
        _ base: String, kind: ProviderSettings.Service = .oauth2, _ change: (inout ClientSettings) -> Void = { _ in }
    ) -> ProviderSettings {
        var client = ClientSettings(
            profile: Support.profile(), clientID: "cid-1",
            wire: WireSettings(identity: IdentitySettings(url: EndpointURL(base + "/me"))))
        change(&client)
        return ProviderSettings(
            name: ProviderName(unchecked: "p"), service: kind,
            endpoints: EndpointSettings(
                authorization: EndpointURL(base + "/authorize?tenant=x"), token: EndpointURL(base + "/token"),
                par: EndpointURL(base + "/par")),
            clients: [client])
    }

    @Test(
        "A client's configured authorization parameters have max_age and acr_values → each sign-in demands this age and acr"
    )
    func configuredSignIn() throws {
        let settings = settings("https://id.example.com") {
            $0.wire.authorizationParameters = [("prompt", "consent"), ("max_age", "300"), ("acr_values", "mfa phr")]
        }
        let demand = try #require(settings.profile.clients.first).configuredSignIn
        #expect(demand == StepUpDemand(contextClasses: ["mfa", "phr"], maximumAge: 300))
    }

    @Test(
        "A login starts → the authorization URL has each parameter once, in a fixed order (SEC-02, SEC-04, SEC-30)")
    func url() async throws {
        let settings = settings("https://id.example.com") {
            $0.wire.authorizationParameters = [("access_type", "offline"), ("prompt", "consent")]
            $0.wire.responseMode = .formPost
        }
        try await Support.with(settings) { client in
            var flow = Flow(provider: try #require(client as? any CodeExchanging))
            // If the app sends a parameter that the broker sets itself, the URL has the broker's value (SEC-07).
            flow.parameters = [
                ("login_hint", "a b@example.org"), ("prompt", "none"), ("state", "evil"), ("request", "evil"),
                ("redirect_uri", "evil:/"),
            ]
            let url = try await flow.start().url.reveal()
            #expect(
                url == "https://id.example.com/authorize?tenant=x&response_type=code&client_id=cid-1"
                    + "&redirect_uri=com.example.app%3A%2Foauth2redirect&scope=openid%20email&state=state-0123456789abcdef"
                    + "&nonce=nonce-0123456789abcdef&code_challenge=7w_YNF9DSfIdPf_pRjSq646_kPr-2-o9NAl16JGghdM"
                    + "&code_challenge_method=S256&response_mode=form_post&access_type=offline&prompt=consent"
                    + "&login_hint=a%20b%40example.org")
            #expect(!url.contains("evil") && !url.contains("prompt=none"))
            let names = try FormPairs(parsing: url.split(separator: "?", maxSplits: 1)[1]).pairs.map(\.name)
            #expect(
                names == [
                    "tenant", "response_type", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge",
                    "code_challenge_method", "response_mode", "access_type", "prompt", "login_hint",
                ])
        }
    }

    @Test("A login of kind oidc asks only for email → the broker adds openid to the scope")
    func openid() async throws {
        try await withSandbox { sandbox in
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                var flow = Flow(provider: try #require(client as? any CodeExchanging))
                flow.scope = ["email"]
                #expect(try await flow.start().url.reveal().contains("scope=openid%20email"))
            }
        }
    }

    @Test("A pushed authorization request → the browser's URL has only client_id and request_uri (SEC-10)")
    func pushed() async throws {
        let server = try RawServer { _ in
            .json(#"{"request_uri":"urn:ietf:params:oauth:request_uri:x1","expires_in":60}"#, status: 201)
        }
        let settings = settings(server.base) {
            $0.wire.pushedAuthorization = .required
            $0.authentication = .clientSecretBasic(Secret("s"))
        }
        try await Support.with(settings) { client in
            let url = try await Flow(provider: try #require(client as? any CodeExchanging)).start().url.reveal()
            #expect(
                url == server.base
                    + "/authorize?tenant=x&client_id=cid-1&request_uri=urn%3Aietf%3Aparams%3Aoauth%3Arequest_uri%3Ax1")
            let request = try #require(server.received.first)
            #expect(request.target == "/par" && request.header("Authorization") == "Basic Y2lkLTE6cw==")
            let form = try FormPairs(parsing: request.body)
            #expect(
                form["state"] == "state-0123456789abcdef" && form["client_id"] == "cid-1"
                    && form["code_challenge"] != nil)
        }
    }

    @Test(
        "A pushed request fails: PAR is required → no login starts; PAR is optional → the login starts without it (SEC-10)",
        arguments: [400, 500, 200, 302])
    func pushDemanded(_ status: Int) async throws {
        let server = try RawServer { _ in .json(#"{"error":"invalid_request"}"#, status: status) }
        try await Support.with(settings(server.base) { $0.wire.pushedAuthorization = .required }) { client in
            let flow = Flow(provider: try #require(client as? any CodeExchanging))
            #expect(await Support.failure { try await flow.start() } != nil)
        }
        try await Support.with(settings(server.base) { $0.wire.pushedAuthorization = .optional }) { client in
            let url = try await Flow(provider: try #require(client as? any CodeExchanging)).start().url.reveal()
            #expect(url.contains("&state=state-"))
        }
    }

    @Test(
        "The provider's metadata requires PAR → the request is pushed, and a failed push stops the login",
        arguments: [true, false]
    )
    func pushByMetadata(_ works: Bool) async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["require_par": true], of: "cloudentity")
            if !works {
                try sandbox.control.place(Fault(provider: "cloudentity", endpoint: "par", "status", status: 500))
            }
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "c"), service: .oidc,
                issuer: sandbox.baseURL + "/cloudentity/example/demo",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                if works {
                    #expect(try await flow.run().identity.subject == "user-ana")
                } else {
                    #expect(await Support.failure { try await flow.start() } != nil)
                }
            }
        }
    }
}
