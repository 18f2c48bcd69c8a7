import Testing

@testable import Sandbox

@Suite("Shortened secrets", .timeLimit(.minutes(1)))
struct ShortenedTests {
    private static let secret = "Qtdva78A_RRzXjHXLKUgIHneoQ0-QaJ5"

    @Test(
        "A message has a secret under its usual name, in JSON, a form or a URL → the playground shows it shortened",
        arguments: [
            "access_token", "refresh_token", "id_token", "code", "state", "code_verifier", "client_secret",
            "login_token", "session_token", "handoff", "state_key", "session_id", "token_exchange", "client_assertion",
        ])
    func named(name: String) {
        // Even a short secret, which does not look random, is shortened because of its name.
        for secret in [Self.secret, "Ab1"] {
            let json = Shortened.body(Array(#"{"a":{"\#(name)":"\#(secret)"}}"#.utf8), type: "application/json")
            #expect(json.contains(name) && !json.contains(secret) && json.contains("…"))
            let form = Shortened.body(
                Array("a=b&\(name)=\(secret)&c=d".utf8), type: "application/x-www-form-urlencoded")
            #expect(form.hasPrefix("a=b&\(name)=") && form.hasSuffix("…&c=d") && !form.contains(secret))
            let target = Shortened.target("/callback?\(name)=\(secret)")
            #expect(!target.contains(secret))
            let url = Shortened.body(
                Array(#"{"callback_url":"app:/cb?\#(name)=\#(secret)"}"#.utf8), type: "application/json")
            #expect(url.contains("app:/cb?") && !url.contains(secret))
        }
    }

    @Test("Credentials in header fields → shortened in the playground's messages")
    func fields() {
        let secret = Self.secret
        for (name, value) in [
            ("Authorization", "Bearer " + secret), ("authorization", "Basic d2ViOnNlY3JldA=="),
            ("Authorization", secret),
            ("Cookie", "coatcheck=\(secret); other=\(secret)"), ("Set-Cookie", "coatcheck=\(secret); Path=/; HttpOnly"),
            ("Location", "app:/cb?code=\(secret)&iss=x"), ("X-Idempotency-Key", secret),
        ] {
            let shown = Shortened.field(name, value)
            #expect(!shown.contains(secret) && !shown.contains("d2ViOnNlY3JldA=="), "\(name): \(shown)")
        }
        #expect(Shortened.field("Set-Cookie", "coatcheck=\(secret); Path=/") == "coatcheck=Qtdva7…; Path=/")
    }

    @Test(
        "Text that looks random, or a JWT, in a message of the playground → the text, or each part of the JWT, is shortened"
    )
    func random() {
        let jwt = "eyJhbGciOiJFUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJ1c2VyLWFuYSIsImF1ZCI6Im0ifQ.Zm9vYmFyMTIzNDU2Nzg5MEFCQw"
        #expect(Shortened.text("/x/\(Self.secret)/y") == "/x/Qtdva7…/y")
        #expect(Shortened.text(jwt) == "eyJhbG….eyJzdW….Zm9vYm…")
    }

    @Test("A request with a proof → the claims are shown, with a shortened token digest and without the signature")
    func proof() throws {
        let claims = #"{"htm":"GET","nonce":"AcilIgsgCMTTapyF","ath":"\#(Self.secret)"}"#
        let parts = [#"{"typ":"dpop+jwt"}"#, claims].map { Base64URL.encode(Array($0.utf8)) }
        let shown = MessageText.request(
            "GET", "/v1/session", headers: [("DPoP", parts.joined(separator: ".") + "." + Self.secret)], body: [])
        let lines = shown.split(separator: "\n").map(String.init)
        #expect(try lines.count == 4 && #require(lines.dropFirst().first).hasPrefix("DPoP: "))
        #expect(lines[2...] == [#"  {"typ":"dpop+jwt"}"#, #"  {"htm":"GET", "nonce":"AcilI…", "ath":"Qtdva7…"}"#])
        #expect(!shown.contains(Self.secret) && !parts.contains(where: shown.contains))
        #expect(Shortened.proof("no.proof").isEmpty && Shortened.proof("").isEmpty)
    }

    @Test(
        "Ordinary words, addresses and public ids in a message of the playground → unchanged",
        arguments: [
            "ses_TKU1qPh2scVTyPiEz2xfRA", "lgn_TKU1qPh2scVTyPiEz2xfRA", "com.example.app.cloudentity:/oauth2redirect",
            "/oidc/.well-known/openid-configuration", "http://127.0.0.1:8089/cloudentity/example/demo",
            "oauth-authorization-server-metadata", "2026-11-22T18:51:05Z",
        ])
    func words(text: String) {
        #expect(Shortened.text(text) == text)
    }

    @Test(
        "The playground shows a problem's member `code` → unchanged; it shows this member of another JSON answer → shortened"
    )
    func codes() {
        let problem = Shortened.body(Array(#"{"code":"login_not_yours"}"#.utf8), type: "application/problem+json")
        #expect(problem == #"{"code":"login_not_yours"}"#)
        #expect(!Shortened.body(Array(#"{"code":"c-x1"}"#.utf8), type: "application/json").contains("c-x1"))
    }

    @Test(
        "The playground shows an empty, malformed or binary body → unchanged; it shows an HTML page → only the page's title"
    )
    func odd() {
        #expect(Shortened.body([], type: "application/json") == "")
        #expect(Shortened.body(Array("{".utf8), type: "application/json") == "{")
        #expect(Shortened.body([0xFF, 0xFE], type: "") == "\u{FFFD}\u{FFFD}")
        #expect(Shortened.body(Array("&&=&a".utf8), type: "application/x-www-form-urlencoded") == "&&=&a")
        #expect(Shortened.target("?") == "?")
        #expect(Shortened.body(Array("<title>Sign in</title>".utf8), type: "text/html") == "(a page: Sign in)")
    }

    @Test("A path that is too long for its arrow in the diagram → shortened in the middle, so that its end stays")
    func titles() {
        #expect(MessageText.title("POST", "/v1/sessions?a=b") == "POST /v1/sessions")
        #expect(
            MessageText.title("GET", "/v1/relay/shop-cloudentity/private/orders") == "GET /v1/relay/…/private/orders")
        #expect(
            MessageText.title("POST", "/cloudentity/example/demo/oauth2/token") == "POST /cloudentity/…/oauth2/token")
        #expect(
            MessageText.title("GET", "/oidc/.well-known/openid-configuration") == "GET /oidc/…/openid-configuration")
        #expect(MessageText.title("GET", "/" + String(repeating: "a", count: 60)).hasSuffix("aaa"))
    }
}
