import AsyncHTTPClient
import BrokerTestSupport
import NIOHTTP1
import Sandbox
import Testing

@Suite(.timeLimit(.minutes(2))) struct SandboxTests {
    @Test(
        "A code is sent with a wrong verifier → refused, and the code stays good; a used code is sent again → refused")
    func codeRefusals() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let code = try await browser.code()
            let wrong = try await browser.redeem(code, verifier: String(repeating: "x", count: 43))
            #expect(wrong.status == 400 && wrong.json["error"] == "invalid_grant")
            #expect(try await browser.redeem(code).status == 200)
            #expect(try await browser.redeem(code).status == 400)
        }
    }

    @Test(
        "The fault `status` is switched on with 503 → the token endpoint answers 503, and the sandbox has recorded the request"
    )
    func faultAndRecord() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            try sandbox.control.place(Fault(provider: "oidc", "status", times: 1, status: 503))
            #expect(try await browser.redeem(browser.code()).status == 503)
            #expect(sandbox.control.requests(provider: "oidc", endpoint: "token").first?.bodyText.isEmpty == false)
        }
    }

    @Test(
        "A used refresh token is sent again → refused; with the fault rotate-strict, the newer refresh tokens end, too"
    )
    func refreshReuse() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let first = try await browser.redeem(browser.code()).json["refresh_token"]?.text ?? ""
            let second = try await browser.refresh(first).json["refresh_token"]?.text ?? ""
            #expect(try await browser.refresh(first).status == 400)
            let third = try await browser.refresh(second).json["refresh_token"]?.text ?? ""
            try sandbox.control.place(Fault(provider: "oidc", "rotate-strict"))
            #expect(try await browser.refresh(second).status == 400)
            #expect(try await browser.refresh(third).status == 400)
        }
    }

    @Test(
        "A client authenticates by no method, by the wrong one or by two → refused; only by its own method → accepted")
    func clientAuthentication() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let basic = ("Authorization", "Basic d2ViOndlYi1zZWNyZXQ=")
            let posted = ("client_secret", "web-secret")
            for (headers, extra, status) in [
                ([], [], 401), ([], [posted], 401), ([basic], [posted], 400), ([basic], [], 200),
            ] as [([(String, String)], [(String, String)], UInt)] {
                let code = try await browser.authorize("/oidc/authorize", [("client_id", "web")]).callback["code"] ?? ""
                let answer = try await browser.send(
                    .POST, "/oidc/token",
                    form: [
                        ("grant_type", "authorization_code"), ("client_id", "web"), ("redirect_uri", "app:/cb"),
                        ("code_verifier", Browser.verifier), ("code", code),
                    ] + extra, headers: headers)
                #expect(answer.status == status)
            }
        }
    }

    @Test(
        "The fault drop-before is on → the connection closes before the request takes effect; drop-after → afterwards",
        arguments: ["drop-before", "drop-after"])
    func drops(name: String) async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let code = try await browser.code()
            try sandbox.control.place(Fault(provider: "oidc", name, times: 1))
            await #expect(throws: (any Error).self) { try await browser.redeem(code) }
            #expect(try await browser.redeem(code).status == (name == "drop-before" ? 200 : 400))
        }
    }

    @Test("The fault `truncate` is on → the connection closes before the end of the answer")
    func truncated() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let code = try await browser.code()
            try sandbox.control.place(Fault(provider: "oidc", "truncate", times: 1))
            await #expect(throws: (any Error).self) { try await browser.redeem(code) }
        }
    }

    @Test("A misspelled fault or an unknown provider → refused")
    func unknownFaults() async throws {
        try await withSandbox { sandbox in
            #expect(throws: SandboxControl.Unknown.self) { try sandbox.control.place(Fault(provider: "oidc", "typo")) }
            #expect(throws: SandboxControl.Unknown.self) { try sandbox.control.place(Fault(provider: "nope", "slow")) }
        }
    }

    @Test("A fault for one request of one client → this client gets the fault one time, and other clients never")
    func matching() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            try sandbox.control.place(
                Fault(provider: "oidc", endpoint: "token", "status", times: 1, status: 503, match: "client_id=app&"))
            let other = try await browser.send(.POST, "/oidc/token", form: [("client_id", "other"), ("code", "x")])
            #expect(other.status == 400)
            #expect(try await browser.redeem("x").status == 503)
            #expect(try await browser.redeem("x").status == 400)
            #expect(sandbox.control.faults.isEmpty)
        }
    }

    @Test("The sandbox records a request → the record has the fields in their order and spelling, and the body's bytes")
    func record() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            _ = try await browser.send(
                .POST, "/oidc/token?a=%20", form: [("code", "x y")], headers: [("X-zZ", "1"), ("X-aA", "2")])
            let seen = try #require(sandbox.control.requests(provider: "oidc", endpoint: "token").first)
            #expect(seen.bodyText == "code=x%20y" && seen.query == "a=%20" && seen.status == 401)
            let names = seen.headers.map(\.name)
            let first = try #require(names.firstIndex(of: "X-zZ"))
            let second = try #require(names.firstIndex(of: "X-aA"))
            #expect(first < second)
            #expect(sandbox.control.count("oidc", "token") == 1)
        }
    }

    @Test("Fifty parallel token calls with one code → exactly one of the calls succeeds")
    func parallelRedemption() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let code = try await browser.code()
            let wins = try await withThrowingTaskGroup(of: UInt.self) { group in
                for _ in 0..<50 { group.addTask { try await browser.redeem(code).status } }
                return try await group.reduce(0) { $0 + ($1 == 200 ? 1 : 0) }
            }
            #expect(wins == 1)
        }
    }

    @Test(
        "Clever's token endpoint: JSON with Basic and an empty secret → accepted one time; a form, or no Basic → refused"
    )
    func clever() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            let ios = [("Authorization", "Basic aW9zLTAwMDE6")]
            let code =
                try await browser.send(
                    .GET,
                    "/clever/oauth/authorize?response_type=code&client_id=ios-0001&redirect_uri=clever-ios-0001://oauth"
                        + "&state=s&sandbox_user=ana"
                ).callback["code"] ?? ""
            let body: JSON = [
                "code": .string(code), "grant_type": "authorization_code", "redirect_uri": "clever-ios-0001://oauth",
            ]
            #expect(try await browser.send(.POST, "/clever/oauth/tokens", json: body).status == 401)
            let form = try await browser.send(.POST, "/clever/oauth/tokens", form: [("code", code)], headers: ios)
            #expect(form.status == 400 && form.text.contains("<html"))
            let answer = try await browser.send(.POST, "/clever/oauth/tokens", json: body, headers: ios)
            #expect(answer.json.members?.map(\.name) == ["access_token", "token_type"])
            let again = try await browser.send(.POST, "/clever/oauth/tokens", json: body, headers: ios)
            #expect(again.status == 400 && again.text == "invalid grant: invalid code")
        }
    }

    @Test(
        "A Zephr state key is used once → the user is registered; the key is used again, unknown or expired → refused")
    func zephr() async throws {
        try await withSandbox { sandbox in
            let browser = Browser(sandbox: sandbox)
            func partial(_ user: String) async throws -> String {
                try await browser.send(.GET, "/zephr/blaize/oauth/google?client_type=ios&sandbox_user=" + user)
                    .callback["state_key"] ?? ""
            }
            func register(_ key: String) async throws -> Browser.Answer {
                try await browser.send(
                    .POST, "/zephr/blaize/register",
                    json: [
                        "identifiers": [:], "validators": ["token_exchange": .string(key)],
                        "attributes": ["first-name": "Ana"],
                    ])
            }
            #expect(try await register("nobody's").status == 404)
            let key = try await partial("new1")
            let answer = try await register(key)
            #expect(answer.status == 200 && answer.headers["Set-Cookie"].count == 2)
            #expect(try await register(key).status == 410)
            #expect(try await register(partial("taken")).status == 409)
            let late = try await partial("new2")
            sandbox.control.advanceClock(seconds: 901)
            #expect(try await register(late).status == 401)
        }
    }

    @Test("A request hangs → the sandbox can still be stopped")
    func stops() async throws {
        let sandbox = try await SandboxServer.start()
        let browser = Browser(sandbox: sandbox)
        try sandbox.control.place(Fault(provider: "oidc", "hang"))
        async let pending = try? browser.redeem("x")
        try await eventually("the request is at the sandbox") { sandbox.control.count("oidc", "token") > 0 }
        await sandbox.stop()
        #expect(await pending == nil)
    }
}
