import Testing

@testable import Sandbox

/// The app before its update, and its move to the broker.
@Suite("The playground's older app", .timeLimit(.minutes(1)))
struct OldAppTests {
    private let app = OldApp()

    private var query: Pairs { Pairs(parsing: app.authorization.drop { $0 != "?" }.dropFirst()) }

    private func form(_ request: PlaygroundRequest) -> Pairs {
        Pairs(parsing: String(decoding: request.body, as: UTF8.self))
    }

    @Test("The older app signs in → its verifier fits the challenge, and the token request names its client")
    func redeeming() throws {
        let request = app.redeeming("c-1")
        let sent = form(request)
        let verifier = try #require(sent["code_verifier"])
        #expect(query["code_challenge"] == Digest256.base64url(verifier))
        #expect(sent["code"] == "c-1" && sent["client_id"] == "mobile-app")
        #expect(sent["redirect_uri"] == query["redirect_uri"])
        #expect(request.to == .provider && request.target == "/oidc/token")
    }

    @Test("A callback with another state, or with an error → the code is nil")
    func callbacks() throws {
        let state = try #require(query["state"])
        #expect(app.code(in: "app:/cb?code=c-1&state=\(state)") == "c-1")
        #expect(app.code(in: "app:/cb?code=c-1&state=other") == nil)
        #expect(app.code(in: "app:/cb?error=access_denied&state=\(state)") == nil)
        #expect(app.code(in: "app:/cb") == nil)
    }

    @Test(
        "The older app has its tokens → the post has refresh_token and id_token, and the screen shows tokens shortened")
    func tokens() throws {
        var app = app
        let long = String(repeating: "t", count: 40)
        app.tokens = ["access_token": "a", "refresh_token": .string(long), "id_token": "x.y.z", "scope": "openid"]
        let provider = try #require(PlaygroundProvider.named("oidc-bound"))
        let body = app.body(for: provider)
        #expect(body["tokens"] == ["refresh_token": .string(long), "id_token": "x.y.z"])
        #expect(body["provider"] == "oidc" && body["client"] == "bound")
        #expect(body["login_token"]?.text?.count == 43)
        #expect(body["login_token"] != app.body(for: provider)["login_token"])
        #expect(app.shownTokens["refresh_token"] == "tttttt…" && app.shownTokens["scope"] == nil)
        #expect(form(OldApp.refreshing(long))["refresh_token"] == long)
    }

    @Test(
        "The broker answers a move → the app takes the step that the documentation lists",
        arguments: [
            (201, "", MoveInStep.moved), (409, "login_required", .signIn), (409, "code_already_used", .signIn),
            (409, "too_many_sessions", .later), (400, "invalid_request", .asBefore),
            (403, "client_not_allowed", .asBefore), (502, "provider_error", .later),
            (503, "provider_unavailable", .later), (429, "rate_limited", .later),
        ])
    func steps(_ status: Int, _ code: String, _ step: MoveInStep) {
        let body: JSON = ["code": .string(code)]
        let answer = PlaygroundAnswer(status: status, headers: [], body: Array(body.serialized.utf8))
        #expect(MoveInStep(after: answer) == step)
        #expect(MoveInStep(after: nil) == .later)
    }
}
