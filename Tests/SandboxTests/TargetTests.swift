import NIOHTTP1
import Sandbox
import Testing

@Suite("The sandbox's tokens for an API", .timeLimit(.minutes(2))) struct TargetTests {
    private static let exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
    private static let accessToken = "urn:ietf:params:oauth:token-type:access_token"
    private static let orders = "https://api.example.org/orders"

    private func tokens(_ browser: Browser, _ more: [(String, String)] = []) async throws -> JSON {
        let code = try await browser.authorize("/oidc/authorize", more).callback["code"] ?? ""
        return try await browser.redeem(code).json
    }

    private func refresh(_ token: String, _ more: [(String, String)], _ browser: Browser) async throws -> Browser.Answer
    {
        try await browser.send(
            .POST, "/oidc/token",
            form: [("grant_type", "refresh_token"), ("client_id", "app"), ("refresh_token", token)] + more)
    }

    private func audience(of token: String, _ sandbox: RunningSandbox, _ browser: Browser) async throws -> [String] {
        let all = try await browser.send(.GET, "/_sandbox/tokens?provider=oidc").json.elements ?? []
        return all.first { $0["token"]?.text == token }?["audience"]?.elements?.compactMap(\.text) ?? []
    }

    @Test(
        "A resource with a fragment, without a scheme, or that was never requested → refused, and no refresh token is spent"
    )
    func refusals() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let bad = try await browser.authorize("/oidc/authorize", [("resource", "https://a.example/#b")])
            #expect(bad.callback["error"] == "invalid_target")
            let token = try await tokens(browser, [("resource", Self.orders)])["refresh_token"]?.text ?? ""
            for resource in ["orders", Self.orders + "#x", "https://api.example.org/others"] {
                let answer = try await refresh(token, [("resource", resource)], browser)
                #expect(answer.status == 400 && answer.json["error"] == "invalid_target")
            }
            let wider = try await refresh(token, [("scope", "openid admin")], browser)
            #expect(wider.json["error"] == "invalid_scope")
            #expect(try await refresh(token, [("resource", Self.orders)], browser).status == 200)
        }
    }

    @Test(
        "A refresh names an API and a scope → the token is only for these; the next refresh names none → the whole scope"
    )
    func audiences() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let first = try await tokens(browser, [("resource", Self.orders)])
            let named = try await refresh(
                first["refresh_token"]?.text ?? "", [("resource", Self.orders), ("scope", "email")], browser
            ).json
            let access = named["access_token"]?.text ?? ""
            #expect(named["scope"] == "email")
            #expect(try await audience(of: access, sandbox, browser) == [Self.orders])
            for (path, token, status) in [
                ("/api/audience/orders/echo", access, 200), ("/api/audience/bills/echo", access, 401),
                ("/api/scope/email/echo", access, 200), ("/api/scope/profile/echo", access, 401),
                ("/api/audience/orders/echo", first["access_token"]?.text ?? "", 401),
            ] as [(String, String, UInt)] {
                let answer = try await browser.send(.GET, path, headers: [("Authorization", "Bearer " + token)])
                #expect(answer.status == status, "\(path)")
            }
            let plain = try await refresh(named["refresh_token"]?.text ?? "", [], browser).json
            #expect(plain["scope"] == "openid email profile")
        }
    }

    @Test(
        "The fault refused-target for one API → a refresh for this API is refused; for another API, or none → succeeds")
    func oneTarget() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            sandbox.control.set(settings: ["resources": "any"], of: "oidc")
            try sandbox.control.place(
                Fault(
                    provider: "oidc", "refused-target", value: "invalid_grant",
                    match: "https%3A%2F%2Fa.example%2Forders"))
            let token = try await tokens(browser)["refresh_token"]?.text ?? ""
            let refused = try await refresh(token, [("resource", "https://a.example/orders")], browser)
            #expect(refused.status == 400 && refused.json["error"] == "invalid_grant")
            let other = try await refresh(token, [("resource", "https://a.example/bills")], browser)
            #expect(other.status == 200)
            #expect(try await refresh(other.json["refresh_token"]?.text ?? "", [], browser).status == 200)
        }
    }

    @Test("The setting voids_older_tokens is on → each refresh ends the access token that was issued before")
    func voided() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            sandbox.control.set(settings: ["voids_older_tokens": true], of: "oidc")
            let first = try await tokens(browser)
            func status(_ answer: JSON) async throws -> UInt {
                let token = answer["access_token"]?.text ?? ""
                return try await browser.send(
                    .GET, "/api/private/echo", headers: [("Authorization", "Bearer " + token)]
                ).status
            }
            #expect(try await status(first) == 200)
            let second = try await refresh(first["refresh_token"]?.text ?? "", [], browser).json
            #expect(try await status(first) == 401)
            #expect(try await status(second) == 200)
        }
    }

    @Test("A token exchange by a public client, for other tokens or for wider scopes → refused")
    func exchangeRefusals() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let access = try await tokens(browser)["access_token"]?.text ?? ""
            func error(_ more: [(String, String)]) async throws -> String {
                let usual = [
                    ("grant_type", Self.exchange), ("client_id", "app"), ("subject_token_type", Self.accessToken),
                    ("subject_token", access),
                ]
                let form = usual.filter { pair in !more.contains { $0.0 == pair.0 } } + more
                return try await browser.send(.POST, "/oidc/token", form: form).json["error"]?.text ?? ""
            }
            #expect(try await error([]) == "unauthorized_client")
            sandbox.control.set(settings: ["exchange": "off"], of: "oidc")
            #expect(try await error([]) == "unsupported_grant_type")
            sandbox.control.set(settings: ["exchange": "public"], of: "oidc")
            #expect(try await error([("subject_token", "at-none")]) == "invalid_request")
            #expect(try await error([("client_id", "other")]) == "invalid_request")
            #expect(try await error([("subject_token_type", Self.exchange)]) == "invalid_request")
            #expect(try await error([("scope", "admin")]) == "invalid_scope")
            #expect(try await error([("audience", "orders")]).isEmpty)
        }
    }

    @Test(
        "A token exchange → an access token for the audience; the fault exchange-refresh-token is on → a refresh token, too"
    )
    func exchange() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            sandbox.control.set(settings: ["exchange": "public"], of: "oidc")
            let access = try await tokens(browser)["access_token"]?.text ?? ""
            func exchanged() async throws -> JSON {
                try await browser.send(
                    .POST, "/oidc/token",
                    form: [
                        ("grant_type", Self.exchange), ("client_id", "app"), ("subject_token_type", Self.accessToken),
                        ("subject_token", access), ("audience", "orders"),
                    ]
                ).json
            }
            let answer = try await exchanged()
            #expect(answer["issued_token_type"]?.text == Self.accessToken && answer["refresh_token"] == nil)
            #expect(try await audience(of: answer["access_token"]?.text ?? "", sandbox, browser) == ["orders"])
            try sandbox.control.place(Fault(provider: "oidc", "exchange-refresh-token", times: 1))
            #expect(try await exchanged()["refresh_token"] != nil)
            #expect(sandbox.control.requests(provider: "oidc", endpoint: "exchange").count == 2)
        }
    }
}
