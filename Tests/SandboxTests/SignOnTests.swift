import NIOHTTP1
import Sandbox
import Testing

/// Browsers that stay signed in at the sandbox, log-outs with the browser's cookie, and the seed file.
@Suite("Single sign-on", .timeLimit(.minutes(2)))
struct SignOnTests {
    private func cookie(_ answer: Browser.Answer) -> [(String, String)] {
        answer.headers[canonicalForm: "Set-Cookie"].first.map {
            [("Cookie", String($0.split(separator: ";").first ?? ""))]
        } ?? []
    }

    private func silently(
        _ browser: Browser, _ more: [(String, String)] = [], headers: [(String, String)] = [], client: String = "app"
    ) async throws -> Browser.Answer {
        var query = Pairs([
            ("response_type", "code"), ("client_id", client), ("redirect_uri", "app:/cb"), ("scope", "openid"),
            ("state", "s1"), ("code_challenge", Browser.challenge), ("code_challenge_method", "S256"),
        ])
        for (name, value) in more { query.add(name, value) }
        return try await browser.send(.GET, "/oidc/authorize?" + query.encoded, headers: headers)
    }

    @Test(
        "prompt=none without a sign-on cookie, or with another provider's → login_required; no prompt → a sign-in page")
    func strangers() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let none = [("prompt", "none")]
            #expect(try await silently(browser, none).callback["error"] == "login_required")
            let elsewhere = cookie(try await browser.authorize("/cloudentity/example/demo/oauth2/authorize"))
            #expect(try await silently(browser, none, headers: elsewhere).callback["error"] == "login_required")
            #expect(try await silently(browser).status == 200)
            sandbox.control.set(settings: ["sso": false], of: "oidc")
            #expect(try await cookie(browser.authorize()).isEmpty)
        }
    }

    @Test(
        "A user has a sign-on cookie and gave consent → signed in silently; a page is needed despite prompt=none → an error"
    )
    func known() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let first = try await browser.authorize()
            let jar = cookie(first)
            #expect(try await silently(browser, headers: jar).callback["code"] != nil)
            #expect(try await silently(browser, [("prompt", "none")], headers: jar).callback["code"] != nil)
            for (prompt, error) in [("none login", "interaction_required"), ("none consent", "interaction_required")] {
                #expect(try await silently(browser, [("prompt", prompt)], headers: jar).callback["error"] == error)
            }
            let other = try await silently(browser, [("prompt", "none")], headers: jar, client: "app-2")
            #expect(other.callback["error"] == "consent_required")
            #expect(try await silently(browser, [("prompt", "login")], headers: jar).status == 200)
            sandbox.control.advanceClock(seconds: 100)
            let aged = [("prompt", "none"), ("max_age", "60")]
            #expect(try await silently(browser, aged, headers: jar).callback["error"] == "login_required")
            let young = [("prompt", "none"), ("max_age", "1000")]
            #expect(try await silently(browser, young, headers: jar).callback["code"] != nil)
        }
    }

    @Test(
        "A log-out without a hint at end_session → the page asks the user; the setting `end_session: cookie` → ended at once"
    )
    func logOut() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            func signedIn(_ jar: [(String, String)]) async throws -> Bool {
                try await silently(browser, [("prompt", "none")], headers: jar).callback["code"] != nil
            }
            sandbox.control.set(client: "app", of: "oidc", ["post_logout_redirect_uris": ["app:/out"]])
            let first = try await browser.authorize()
            let jar = cookie(first)
            let tokens = try await browser.redeem(first.callback["code"] ?? "").json
            let query = "?client_id=app&post_logout_redirect_uri=app%3A%2Fout&state=s2"
            #expect(try await browser.send(.GET, "/oidc/end_session" + query, headers: jar).status == 200)
            #expect(try await signedIn(jar))
            let form = [
                ("confirm", "yes"), ("client_id", "app"), ("post_logout_redirect_uri", "app:/elsewhere"),
                ("state", "s2"),
            ]
            #expect(try await browser.send(.POST, "/oidc/end_session", form: form, headers: jar).status == 400)
            let again = cookie(try await browser.authorize())
            sandbox.control.set(settings: ["end_session": "cookie"], of: "oidc")
            let gone = try await browser.send(.GET, "/oidc/end_session" + query, headers: again)
            #expect(gone.location == "app:/out?state=s2")
            #expect(try await !signedIn(again))
            #expect(try await browser.refresh(tokens["refresh_token"]?.text ?? "").status == 400)
        }
    }

    @Test(
        "A seed file that is malformed, or has an unknown member, provider or fault → refused",
        arguments: [
            "", "[]", #"{"user":{}}"#, #"{"settings":{"nope":{}}}"#, #"{"clients":{"nope":{}}}"#,
            #"{"faults":{"oidc":[{"fault":"typo"}]}}"#, #"{"faults":{"oidc":{}}}"#, #"{"faults":{"nope":[]}}"#,
        ])
    func refusedSeed(_ text: String) {
        #expect(throws: SeedFile.Refused.self) { try SeedFile(Array(text.utf8)) }
    }

    @Test("The sandbox starts with a seed file → has its users, clients, settings and faults; a reset → has them again")
    func seed() async throws {
        let text = """
            {"users":{"dora":{"email":"dora@example.net"}},"clients":{"oidc":{"app":{"redirect_uris":["app:/cb"]}}},
             "settings":{"oidc":{"iss_parameter":false}},"faults":{"*":[{"fault":"no-scope","endpoint":"token"}]}}
            """
        let seed = try SeedFile(Array(text.utf8))
        try await withSandbox(SandboxConfiguration(seed: seed)) { sandbox in
            let browser = Browser(sandbox: sandbox)
            func check() async throws {
                #expect(try await browser.authorize("/oidc/authorize", [("redirect_uri", "app:/other")]).status == 400)
                let answer = try await browser.authorize()
                #expect(answer.callback["iss"] == nil)
                #expect(try await browser.redeem(answer.callback["code"] ?? "").json["scope"] == nil)
                let user = try await browser.send(.GET, "/_sandbox/users/dora").json
                #expect(user["email"]?.text == "dora@example.net")
            }
            try await check()
            sandbox.control.set(settings: ["iss_parameter": true], of: "oidc")
            sandbox.control.reset()
            try await check()
        }
    }
}
