import Broker
import BrokerTestSupport
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("Providers of kind clever", .timeLimit(.minutes(2)))
struct CleverTests {
    private func settings(
        _ base: String, own: CleverSettings = CleverSettings(), clientID: String = "ios-0001",
        authentication: ClientAuthentication = .blankSecretBasic, nonce: Bool = false
    ) -> ProviderSettings {
        ProviderSettings(
            name: ProviderName(unchecked: "clever"), service: .clever(own), issuer: base, discovery: false,
            endpoints: EndpointSettings(
                authorization: EndpointURL(base + "/oauth/authorize"), token: EndpointURL(base + "/oauth/tokens"),
                jwks: EndpointURL(base + "/oauth/jwks"), introspection: EndpointURL(base + "/oauth/tokeninfo"),
                api: EndpointURL(base)),
            clients: [
                ClientSettings(
                    profile: Support.profile(redirects: ["clever-ios-0001://oauth"], nonce: nonce) {
                        $0.pkce = .unsupported
                        $0.scope = []
                    }, clientID: clientID, authentication: authentication)
            ])
    }

    private func flow(_ client: any ProviderClient, nonce: Bool = false) throws -> Flow {
        var flow = Flow(provider: try #require(client as? any CodeExchanging))
        flow.verifier = nil
        flow.scope = []
        if !nonce { flow.nonce = nil }
        return flow
    }

    @Test("Clever's default addresses → each is a URL that the broker may call")
    func addresses() {
        let plain = ProviderSettings(
            name: ProviderName(unchecked: "clever"), service: .clever(CleverSettings()), clients: [])
        let endpoints = CleverWire.settings(plain, CleverSettings()).endpoints
        #expect(![endpoints.authorization, endpoints.token, endpoints.api, endpoints.introspection].contains(nil))
    }

    @Test(
        "A Clever client without a secret redeems a code → the token request is JSON, with Basic and an empty secret")
    func wire() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"il-1","token_type":"bearer"}"#) }
        try await Support.with(settings(server.base)) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            _ = try await exchanger.redeem(
                Support.grant("c-7f3e", redirect: .uri("clever-ios-0001://oauth"), verifier: nil),
                by: Support.deadline)
        }
        let request = try #require(server.received.first)
        #expect(request.method == "POST" && request.target == "/oauth/tokens")
        #expect(request.header("Authorization") == "Basic aW9zLTAwMDE6")
        #expect(request.header("Content-Type") == "application/json")
        #expect(request.header("Accept") == "application/json")
        #expect(
            request.body
                == #"{"grant_type":"authorization_code","code":"c-7f3e","redirect_uri":"clever-ios-0001://oauth"}"#)
        #expect(server.received.count == 1)
    }

    private func request(_ token: String) -> ImportRequest {
        ImportRequest(
            client: Support.ios,
            tokens: ImportedTokens(accessToken: Secret(token), refreshToken: nil, merchantID: nil),
            idempotencyKey: String(repeating: "k", count: 43))
    }

    @Test(
        "An imported access token belongs to another application → refused before use, because Clever names the application"
    )
    func importRefused() async throws {
        let answers: [(RawServer.Reply, String)] = [
            (.json(#"{"client_id":"another-app","scopes":[]}"#), "rejected unauthorized_client"),
            (.json(#"{"client_id":"ios-00011"}"#), "rejected unauthorized_client"),
            (.json(#"{"error":"unauthorized"}"#, status: 401), "rejected invalid_grant"),
            (.json(#"{"scopes":[]}"#), "retryable"), (.json("[]"), "retryable"),
            (.json(#"{"client_id":7}"#), "retryable"), (.json("{}", status: 503), "retryable"),
            (.json(#"{"message":"Forbidden"}"#, status: 403), "retryable"), (.json("{}", status: 404), "retryable"),
        ]
        for (answer, expected) in answers {
            let server = try RawServer { _ in answer }
            try await Support.with(settings(server.base)) { client in
                let importer = try #require(client as? any TokenImporting)
                let failure = await Support.failure {
                    try await importer.takeOver(request("il-theirs"), by: Support.deadline)
                }
                let told =
                    switch failure {
                    case .rejected(let error): "rejected \(error.code)"
                    case .retryable: "retryable"
                    default: "\(String(describing: failure))"
                    }
                #expect(told == expected)
            }
            #expect(server.received.map(\.target) == ["/oauth/tokeninfo"])
            #expect(server.received.first?.header("Authorization") == "Bearer il-theirs")
        }
    }

    @Test(
        "A Clever import with a refresh token or merchant_id → refused; tokeninfo's answer is lost → the import may be repeated"
    )
    func importMembers() async throws {
        try await withSandbox { sandbox in
            try await Support.with(settings(sandbox.baseURL + "/clever")) { client in
                let importer = try #require(client as? any TokenImporting)
                let access = Secret("il-1")
                #expect(
                    importer.importFault(
                        ImportedTokens(accessToken: access, refreshToken: Secret("r"), merchantID: nil),
                        client: Support.ios)
                        == FieldFault("/tokens/refresh_token", .notAllowed))
                #expect(
                    importer.importFault(
                        ImportedTokens(accessToken: access, refreshToken: nil, merchantID: "M"), client: Support.ios)
                        == FieldFault("/tokens/merchant_id", .notAllowed))
                try sandbox.control.place(Fault(provider: "clever", endpoint: "tokeninfo", "drop-after"))
                let lost = await Support.failure { try await importer.takeOver(request("il-1"), by: Support.deadline) }
                guard case .retryable = lost else {
                    Issue.record("a lost answer must not count as a used token: \(String(describing: lost))")
                    return
                }
            }
        }
    }

    @Test(
        "An app imports a Clever access token of this application → accepted, with and without OpenID Connect",
        arguments: [false, true])
    func imported(_ openID: Bool) async throws {
        try await withSandbox { sandbox in
            if openID { sandbox.control.set(settings: ["oidc": true], of: "clever") }
            let settings = settings(sandbox.baseURL + "/clever", own: CleverSettings(openID: openID))
            try await Support.with(settings) { client in
                let exchanging = try #require(client as? any CodeExchanging)
                let importer = try #require(client as? any TokenImporting)
                let flow = try flow(client)
                let theirs = try await flow.redeem(try await flow.callback())
                let before = Support.clock.now()
                let tokens = try await importer.takeOver(request(theirs.accessToken.reveal()), by: Support.deadline)
                #expect(tokens.accessToken.reveal() == theirs.accessToken.reveal() && tokens.refreshToken == nil)
                let end = try #require(tokens.expiresAt)
                #expect(end.since(before) >= .seconds(86_399) && end.since(before) < .seconds(86_460))
                let who = try await importer.identifyImported(
                    tokens, of: request("").tokens, Support.context(), by: Support.deadline)
                #expect(who.subject.hasPrefix("65000000") && who.unverified.isEmpty)
                #expect(who.claims.first { $0.name == "email" }?.value.string == "ana@example.org")
                if !openID {
                    let login = try await exchanging.identify(theirs, Support.context(), by: Support.deadline)
                    #expect(login.subject == who.subject)
                }
            }
        }
    }

    @Test("A Clever login with a district → the authorization URL has the district, and neither scope nor challenge")
    func authorize() async throws {
        try await Support.with(settings("http://127.0.0.1:1")) { client in
            var flow = try flow(client)
            flow.parameters = [("district_id", "d1")]
            let url = try await flow.start().url.reveal()
            #expect(
                url == "http://127.0.0.1:1/oauth/authorize?response_type=code&client_id=ios-0001"
                    + "&redirect_uri=clever-ios-0001%3A%2F%2Foauth&state=state-0123456789abcdef&district_id=d1")
        }
    }

    @Test("Clever refuses a used code (in plain text) or a wrong client secret → the broker reports a rejection")
    func errors() async throws {
        try await withSandbox { sandbox in
            try await Support.with(settings(sandbox.baseURL + "/clever")) { client in
                let flow = try flow(client)
                let callback = try await flow.callback()
                _ = try await flow.redeem(callback)
                guard case .rejected(let error) = await Support.failure({ try await flow.redeem(callback) }) else {
                    return #expect(Bool(false))
                }
                #expect(error.isInvalidGrant && error.status == 400)
            }
            let wrong = settings(
                sandbox.baseURL + "/clever", clientID: "web-0001",
                authentication: .clientSecretBasic(Secret("wrong")))
            try await Support.with(wrong) { client in
                let flow = try flow(client)
                let callback = try await flow.callback()
                guard case .rejected(let error) = await Support.failure({ try await flow.redeem(callback) }) else {
                    return #expect(Bool(false))
                }
                #expect(error.code == "invalid_client")
            }
        }
    }

    @Test(
        "Clever answers with an HTML page → the status decides the result; with 429 → retried at the time in X-RateLimit-Reset",
        arguments: [400, 401, 404, 429, 503])
    func html(_ status: Int) async throws {
        let clock = TestClock(WallTime(seconds: 1_800_000_000))
        let reset = String(clock.now.seconds + 120)
        let server = try RawServer { _ in
            .http(status, [("Content-Type", "text/html"), ("X-RateLimit-Reset", reset)], Array("<html></html>".utf8))
        }
        try await Support.with(settings(server.base), clock: clock.waiting) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            let failure = await Support.failure {
                try await exchanger.redeem(Support.grant(verifier: nil), by: Support.deadline)
            }
            switch (status, failure) {
            case (429, .retryable(_, let wait, _)):
                #expect(try #require(wait) == .seconds(120))
            case (503, .retryable), (400, .rejected), (401, .rejected), (404, .rejected): break
            default: #expect(Bool(false), "\(String(describing: failure))")
            }
        }
    }

    @Test(
        "A Clever sign-in → identity from /me and its canonical link, with role, district, name and e-mail address as claims"
    )
    func identity() async throws {
        try await withSandbox { sandbox in
            for place in ["inside", "top"] {
                sandbox.control.set(settings: ["type_place": .string(place)], of: "clever")
                try await Support.with(settings(sandbox.baseURL + "/clever")) { client in
                    let (tokens, identity) = try await flow(client).run()
                    #expect(!identity.subject.isEmpty)
                    let names = identity.claims.map(\.name)
                    #expect(names.contains("role") && names.contains("district") && names.contains("name"))
                    #expect(identity.claims.first { $0.name == "email" }?.value == .string("ana@example.org"))
                    #expect(tokens.refreshToken == nil)
                    let life = try #require(tokens.expiresAt).since(Support.clock.now())
                    #expect(life > .seconds(86_300) && life <= .seconds(86_400))
                    #expect(!(client is any TokenRefreshing) && !(client is any TokenRevoking))
                }
            }
        }
    }

    @Test("Clever's canonical link leads to another user than /me → identity_rejected")
    func otherUser() async throws {
        try await withSandbox { sandbox in
            try sandbox.control.place(Fault(provider: "clever", endpoint: "me", "userinfo-invalid-sub"))
            try await Support.with(settings(sandbox.baseURL + "/clever")) { client in
                let flow = try flow(client)
                guard case .identityRejected = await Support.failure({ try await flow.run() }) else {
                    return #expect(Bool(false))
                }
            }
        }
    }

    @Test(
        "Clever's canonical link is not the path of the signed-in user → not followed, and identity_rejected",
        arguments: [
            "https://evil.example/v3.0/users/u1", "//evil.example/users/u1", "/v3.0/users/../u1", "/v3.0/users/u2",
            "/v3.0/users/u1/x", "/v3.0//u1", "/v3.0/users/u1?x=1", "@evil.example/v3.0/users/u1", "/v3.0/users/u1%00",
            "/v3.0/us ers/u1", "/./users/u1",
        ])
    func hostileLinks(_ link: String) async throws {
        let server = try RawServer { _ in
            .json(#"{"data":{"id":"u1"},"links":[{"rel":"canonical","uri":"\#(link)"}]}"#)
        }
        try await Support.with(settings(server.base)) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            let failure = await Support.failure {
                try await exchanger.identify(
                    TokenSet(accessToken: Secret("il-1")), Support.context(), by: Support.deadline)
            }
            guard case .identityRejected = failure else { return #expect(Bool(false), "\(link)") }
            #expect(server.received.map(\.target) == ["/v3.0/me"])
        }
    }

    @Test(
        "Clever with OpenID Connect → the id_token is verified, and userinfo must have the same user",
        arguments: ["", "invalid-aud", "nonce-invalid", "userinfo-invalid-sub"])
    func openID(_ fault: String) async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["oidc": true], of: "clever")
            if !fault.isEmpty { try sandbox.control.place(Fault(provider: "clever", fault)) }
            let settings = settings(sandbox.baseURL + "/clever", own: CleverSettings(openID: true), nonce: true)
            try await Support.with(settings) { client in
                let flow = try flow(client, nonce: true)
                if fault.isEmpty {
                    let identity = try await flow.run().identity
                    #expect(identity.claims.contains { $0.name == "given_name" })
                } else {
                    let failure = await Support.failure { try await flow.run() }
                    guard case .identityRejected = failure else {
                        return #expect(Bool(false), "\(String(describing: failure))")
                    }
                }
            }
        }
    }
}
