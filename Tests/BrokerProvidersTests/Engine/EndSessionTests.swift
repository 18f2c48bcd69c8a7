import Broker
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("The end of the provider's session", .timeLimit(.minutes(2)))
struct EndSessionTests {
    private func settings(_ base: String, _ revocation: RevocationSettings = RevocationSettings()) -> ProviderSettings {
        ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oidc, issuer: base, discovery: false,
            endpoints: EndpointSettings(
                authorization: EndpointURL(base + "/authorize"), token: EndpointURL(base + "/token"),
                jwks: EndpointURL(base + "/jwks"),
                revocation: base + "/revoke", endSession: EndpointURL(base + "/oidc/logout")),
            clients: [
                ClientSettings(
                    profile: Support.profile(), clientID: "c id", authentication: .clientSecretBasic(Secret("s3cret")),
                    wire: WireSettings(revocation: revocation))
            ])
    }

    private let tokens = TokenSet(accessToken: Secret("at-1"), idToken: Secret("eyJ.e30.c+g"))

    private func end(_ settings: ProviderSettings, _ tokens: TokenSet) async throws -> Bool {
        try await Support.with(settings) { client in
            try await #require(client as? any SessionEnding).endSession(
                tokens, client: Support.ios, by: Support.deadline)
        }
    }

    @Test("An end-session request → a form with the id_token and the client id, without client authentication (SEC-70)")
    func wire() async throws {
        let server = try RawServer { _ in .http(200, [], []) }
        #expect(try await end(settings(server.base), tokens))
        let request = try #require(server.received.first)
        #expect(server.received.count == 1)
        #expect(request.method == "POST" && request.target == "/oidc/logout")
        #expect(request.body == "id_token_hint=eyJ.e30.c%2Bg&client_id=c%20id")
        #expect(
            request.headers.map { $0.name + ": " + $0.value } == [
                "Content-Type: application/x-www-form-urlencoded", "Accept: */*", "User-Agent: coatcheck",
                "Accept-Encoding: gzip, deflate", "host: 127.0.0.1:\(server.port)", "Content-Length: 44",
            ])
    }

    @Test(
        "end_session is answered with 2xx or a redirect → the call counts as done, and the redirect is not followed (SEC-17)",
        arguments: [200, 204, 302, 303, 307])
    func done(_ status: Int) async throws {
        let server = try RawServer { _ in .http(status, [("Location", "/elsewhere")], Array("<html>".utf8)) }
        #expect(try await end(settings(server.base), tokens))
        #expect(server.received.map(\.target) == ["/oidc/logout"])
    }

    @Test("end_session is answered with 4xx → never repeated; with 429, 5xx or not at all → tried later")
    func failures() async throws {
        func failure(_ reply: RawServer.Reply) async throws -> String? {
            let server = try RawServer { _ in reply }
            return await Support.failure { try await end(settings(server.base), tokens) }?.shortDescription
        }
        #expect(try await failure(.json(#"{"error":"invalid_request"}"#, status: 400)) == "rejected")
        for status in [400, 404, 405] { #expect(try await failure(.http(status, [], [])) == "unusable") }
        for status in [429, 500, 503] { #expect(try await failure(.http(status, [], [])) == "retryable") }
        #expect(try await failure(.close) == "lost")
    }

    @Test(
        "end_session answers 503 to 20 calls → its breaker opens, and the breaker of the revocations stays closed (SEC-120)"
    )
    func ownBreaker() async throws {
        let server = try RawServer { $0.target == "/oidc/logout" ? .http(503, [], []) : .http(200, [], []) }
        try await Support.with(settings(server.base)) { client in
            let ender = try #require(client as? any SessionEnding)
            for _ in 0..<20 {
                _ = await Support.failure {
                    try await ender.endSession(tokens, client: Support.ios, by: Support.deadline)
                }
            }
            #expect(server.received.count == 8)
            try await #require(client as? any TokenRevoking).revoke(tokens, client: Support.ios, by: Support.deadline)
        }
        #expect(server.received.last?.target == "/revoke")
    }

    @Test(
        "No token can be revoked → end_session is still sent, unless it is switched off or the id_token or endpoint is missing"
    )
    func whether() async throws {
        let server = try RawServer { _ in .http(200, [], []) }
        #expect(try await end(settings(server.base, RevocationSettings(style: .none)), tokens))
        #expect(server.received.map(\.target) == ["/oidc/logout"])
        #expect(try await !end(settings(server.base, RevocationSettings(endSession: false)), tokens))
        #expect(try await !end(settings(server.base), TokenSet(accessToken: Secret("at-1"))))
        var settings = settings(server.base)
        settings.endpoints.endSession = nil
        #expect(try await !end(settings, tokens))
        #expect(server.received.count == 1)
    }

    @Test(
        "The metadata has an end_session endpoint → one call ends the provider's session, unless its page asks the user first",
        arguments: ["", "end-session-confirm", "discovery-no-end-session"])
    func sandbox(_ fault: String) async throws {
        try await withSandbox { sandbox in
            if !fault.isEmpty { try sandbox.control.place(Fault(provider: "cloudentity", fault)) }
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "p"), service: .oidc,
                issuer: sandbox.baseURL + "/cloudentity/example/demo",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                let tokens = try await Flow(provider: #require(client as? any CodeExchanging)).run().tokens
                let ender = try #require(client as? any SessionEnding)
                let called = try await ender.endSession(tokens, client: Support.ios, by: Support.deadline)
                #expect(called == (fault != "discovery-no-end-session"))
                let seen = sandbox.control.requests(provider: "cloudentity", endpoint: "end_session")
                #expect(seen.map(\.status) == (called ? [200] : []))
                let refresher = try #require(client as? any TokenRefreshing)
                let refresh = try #require(tokens.refreshToken).reveal()
                let failure = await Support.failure {
                    try await refresher.refresh(Support.refresh(refresh), by: Support.deadline)
                }
                #expect((failure == nil) == !fault.isEmpty)
            }
        }
    }

    private func page(_ settings: ProviderSettings, _ tokens: TokenSet) async throws -> String? {
        try await Support.with(settings) { client in
            try await #require(client as? any SessionEnding).logOutPage(
                tokens, client: Support.ios, state: Secret("st 1"))?.reveal()
        }
    }

    @Test(
        "The browser's log-out URL → has the client, the return address and a state, but never the id_token (SEC-70)")
    func page() async throws {
        let base = "https://as.example"
        var settings = settings(base)
        #expect(try await page(settings, tokens) == base + "/oidc/logout?client_id=c%20id")
        settings.clients[0].postLogoutRedirectURI = "com.example.app:/out"
        #expect(
            try await page(settings, tokens)
                == base + "/oidc/logout?client_id=c%20id&post_logout_redirect_uri=com.example.app%3A%2Fout&state=st%201"
        )
        settings.endpoints.endSession = EndpointURL(base + "/logout?tenant=a")
        settings.clients[0].postLogoutRedirectURI = nil
        #expect(try await page(settings, tokens) == base + "/logout?tenant=a&client_id=c%20id")
    }

    @Test(
        "end_session is disabled, or its endpoint is missing or already has a client_id → the browser gets no log-out URL"
    )
    func noPage() async throws {
        #expect(try await page(settings("https://as.example", RevocationSettings(endSession: false)), tokens) == nil)
        var settings = settings("https://as.example")
        settings.endpoints.endSession = EndpointURL("https://as.example/logout?client_id=other")
        #expect(try await page(settings, tokens) == nil)
        settings.endpoints.endSession = nil
        #expect(try await page(settings, tokens) == nil)
    }

    @Test("A preset names a claim for logout_hint, and the id_token has this claim as a text → logout_hint is sent")
    func hint() async throws {
        func token(_ claims: String) -> TokenSet {
            let parts = [#"{"alg":"RS256"}"#, claims, "x"].map { Base64URL.encode(Array($0.utf8)) }
            return TokenSet(accessToken: Secret("at-1"), idToken: Secret(parts.joined(separator: ".")))
        }
        var settings = settings("https://as.example")
        let hinted = token(#"{"sub":"u","login_hint":"O.abc"}"#)
        #expect(try await page(settings, hinted)?.contains("hint") == false)
        settings.clients[0].wire.logoutHintClaim = Presets.named("microsoft")?.wire.logoutHintClaim
        #expect(try await page(settings, hinted)?.hasSuffix("?client_id=c%20id&logout_hint=O.abc") == true)
        for claims in [#"{"sub":"u"}"#, #"{"login_hint":7}"#, #"{"login_hint":""}"#] {
            #expect(try await page(settings, token(claims))?.hasSuffix("?client_id=c%20id") == true, "\(claims)")
        }
    }

    @Test("An id_token_hint of another client, or with a forged signature → the sandbox refuses the end_session call")
    func hints() async throws {
        try await withSandbox { sandbox in
            func settings(_ clientID: String) -> ProviderSettings {
                ProviderSettings(
                    name: ProviderName(unchecked: "p"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                    clients: [ClientSettings(profile: Support.profile(), clientID: clientID)])
            }
            let tokens = try await Support.with(settings("mobile-app")) {
                try await Flow(provider: #require($0 as? any CodeExchanging)).run().tokens
            }
            var forged = tokens
            forged.idToken = tokens.idToken.map { Secret($0.reveal().dropLast(4) + "AAAA") }
            #expect(await Support.failure { try await end(settings("other-app"), tokens) } != nil)
            #expect(await Support.failure { try await end(settings("mobile-app"), forged) } != nil)
            #expect(try await end(settings("mobile-app"), tokens))
        }
    }
}
