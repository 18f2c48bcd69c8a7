import NIOHTTP1
import Testing

@testable import Sandbox

/// Requests for a stronger or newer sign-in (RFC 9470), and the sandbox's API of payments.
@Suite("Step-up at the sandbox", .timeLimit(.minutes(2)))
struct StepUpTests {
    private static let anHourAgo = ("sandbox_auth_age", "3600")

    /// The cookie of a browser that signed in an hour ago.
    private func signedIn(_ browser: Browser) async throws -> [(String, String)] {
        let answer = try await browser.authorize("/oidc/authorize", [Self.anHourAgo])
        let cookie = try #require(answer.headers[canonicalForm: "Set-Cookie"].first)
        return [("Cookie", String(cookie.prefix { $0 != ";" }))]
    }

    /// Sends an authorization request that leaves the choice of the user to the provider's page.
    private func ask(
        _ browser: Browser, _ more: [(String, String)], jar: [(String, String)]
    ) async throws -> Browser.Answer {
        let query = Pairs(
            [
                ("response_type", "code"), ("client_id", "app"), ("redirect_uri", "app:/cb"), ("scope", "openid"),
                ("state", "s1"), ("code_challenge", Browser.challenge), ("code_challenge_method", "S256"),
            ] + more)
        return try await browser.send(.GET, "/oidc/authorize?" + query.encoded, headers: jar)
    }

    private func claims(_ browser: Browser, _ callback: Browser.Answer) async throws -> JSON {
        let answer = try await browser.redeem(callback.callback["code"] ?? "")
        let token = try #require(answer.json["id_token"]?.text)
        let part = try #require(token.split(separator: ".").dropFirst().first)
        return try JSON.parse(#require(Base64URL.decode(part)))
    }

    @Test(
        "The setting step_up is `refuses`, and a request has acr_values or max_age → an error, even if the user signs in again",
        arguments: [
            ("acr_values", "mfa", "unmet_authentication_requirements"), ("max_age", "60", "login_required"),
        ])
    func refuses(_ name: String, _ value: String, _ error: String) async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let jar = try await signedIn(browser)
            sandbox.control.set(settings: ["step_up": "refuses"], of: "oidc")
            let asked = (name, value)
            #expect(try await ask(browser, [asked], jar: jar).callback["error"] == error)
            #expect(try await browser.authorize("/oidc/authorize", [asked]).callback["error"] == error)
            #expect(try await ask(browser, [], jar: jar).callback["code"] != nil)
        }
    }

    @Test(
        "step_up is `honours` or `silent`, and the sign-in is too old or has another acr → the provider shows its sign-in page",
        arguments: [("max_age", "60"), ("acr_values", "mfa"), ("acr_values", "phr mfa")])
    func asksAgain(_ name: String, _ value: String) async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let jar = try await signedIn(browser)
            let asked = (name, value)
            for setting in ["honours", "silent"] {
                sandbox.control.set(settings: ["step_up": .string(setting)], of: "oidc")
                #expect(try await ask(browser, [asked], jar: jar).status == 200)
                let none = try await ask(browser, [asked, ("prompt", "none")], jar: jar)
                #expect(none.callback["error"] == "login_required")
            }
            sandbox.control.set(settings: ["step_up": "honours"], of: "oidc")
            for met in [("max_age", "4000"), ("acr_values", "mfa pwd")] {
                #expect(try await ask(browser, [met], jar: jar).callback["code"] != nil)
            }
        }
    }

    @Test(
        "A user signs in again for a demand → the id_token has the new acr and auth_time, which meet the next demand silently"
    )
    func honours() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let before = try await claims(browser, ask(browser, [], jar: signedIn(browser)))
            #expect(before["acr"] == "pwd" && before["amr"] == ["pwd"])
            let asked = [("max_age", "60"), ("acr_values", "phr mfa")]
            let answer = try await browser.authorize("/oidc/authorize", asked)
            let cookie = try #require(answer.headers[canonicalForm: "Set-Cookie"].first)
            let silent = try await ask(browser, asked, jar: [("Cookie", String(cookie.prefix { $0 != ";" }))])
            for callback in [answer, silent] {
                let after = try await claims(browser, callback)
                #expect(after["acr"] == "phr" && after["amr"] == ["pwd", "otp"])
                #expect(try #require(after["auth_time"]?.number) >= #require(before["auth_time"]?.number) + 3500)
            }
        }
    }

    @Test(
        "The setting step_up is `ignores` → the provider accepts the old sign-in, and the id_token has the old auth_time"
    )
    func ignores() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let jar = try await signedIn(browser)
            sandbox.control.set(settings: ["step_up": "ignores"], of: "oidc")
            let answer = try await ask(browser, [("max_age", "60"), ("acr_values", "mfa")], jar: jar)
            let claims = try await claims(browser, answer)
            let (issuedAt, age) = (try #require(claims["iat"]?.number), try #require(claims["auth_time"]?.number))
            #expect(issuedAt - age >= 3500 && claims["acr"] == nil)
        }
    }

    @Test(
        "The fault missing-auth-time is on → the id_token lacks auth_time; other-user-callback is on → it has another user"
    )
    func faults() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            try sandbox.control.place(Fault(provider: "oidc", "missing-auth-time", times: 1))
            let silent = try await claims(browser, browser.authorize())
            #expect(silent["auth_time"] == nil && silent["acr"] == "pwd")
            for (value, sub) in [(nil, "user-ben"), ("cleo", "user-cleo")] as [(JSON?, String)] {
                try sandbox.control.place(Fault(provider: "oidc", "other-user-callback", times: 1, value: value))
                #expect(try await claims(browser, browser.authorize())["sub"]?.text == sub)
            }
            #expect(try await claims(browser, browser.authorize())["sub"]?.text == "user-ana")
        }
    }

    @Test(
        "A payment with a wrong amount → refused; with a right amount → listed, with the user if the call had a token")
    func payments() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let good: JSON = ["amount": 20]
            #expect(try await browser.send(.POST, "/api/private/payments", json: good).status == 401)
            for bad in [[:], ["amount": 0], ["amount": "20"], ["amount": -3]] as [JSON] {
                #expect(try await browser.send(.POST, "/api/payments", json: bad).status == 400)
            }
            #expect(try await browser.send(.GET, "/api/payments").json["payments"] == [])
            let token = try await browser.redeem(browser.code()).json["access_token"]?.text ?? ""
            let bearer = [("Authorization", "Bearer " + token)]
            let answer = try await browser.send(.POST, "/api/private/payments/large", json: good, headers: bearer)
            #expect(answer.status == 201 && answer.json["by"] == "user-ana")
            #expect(answer.json["path"] == "/payments/large" && answer.json["currency"] == "EUR")
            let anonymous = try await browser.send(.POST, "/api/payments", json: good)
            #expect(anonymous.status == 201 && anonymous.json["by"] == .null)
            let told = try await browser.send(.GET, "/api/payments").json["payments"]
            #expect(told == .array([answer.json, anonymous.json]))
        }
    }
}
