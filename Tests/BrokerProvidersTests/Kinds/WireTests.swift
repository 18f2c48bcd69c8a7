import Broker
import Sandbox
import Testing

@testable import BrokerProviders

/// Each provider's requests that contain a secret, in full: method, path, ordered header fields, body.
@Suite("The exact requests to known providers", .timeLimit(.minutes(2)))
struct WireTests {
    private static let verifier = String(repeating: "v", count: 43)
    private static let key = String(repeating: "k", count: 43)
    private static let refreshKey = String(repeating: "r", count: 43)
    private static let redirect = "com.example.app%3A%2Foauth2redirect"

    /// Runs a login, a refresh and a log-out, and compares their calls with `expected`.
    ///
    /// In `expected`, a name in braces stands for a random value.
    private func check(
        _ provider: String, nonce: Bool = true, verifier: Bool = true, _ expected: [String],
        settings: (RunningSandbox) throws -> ProviderSettings
    ) async throws {
        try await withSandbox { sandbox in
            let settings = try settings(sandbox)
            try await Support.with(settings) { client in
                var flow = Flow(provider: try #require(client as? any CodeExchanging))
                if !nonce { flow.nonce = nil }
                if !verifier { flow.verifier = nil }
                flow.scope = client.profile.clients.first?.scope ?? []
                let callback = try await flow.callback()
                var tokens = try await flow.redeem(callback)
                var names = [
                    ("code", callback["code"]), ("rt-1", tokens.refreshToken?.reveal()),
                    ("at-1", tokens.accessToken.reveal()), ("id", tokens.idToken?.reveal()),
                ]
                if let refresher = client as? any TokenRefreshing, let refresh = tokens.refreshToken {
                    tokens = tokens.refreshed(
                        with: try await refresher.refresh(self.refresh(refresh), by: Support.deadline))
                    names += [("rt-2", tokens.refreshToken?.reveal()), ("at-2", tokens.accessToken.reveal())]
                }
                if let revoker = client as? any TokenRevoking {
                    try await revoker.revoke(tokens, client: Support.ios, by: Support.deadline)
                }
                if let ender = client as? any SessionEnding {
                    _ = try await ender.endSession(tokens, client: Support.ios, by: Support.deadline)
                }
                let secret: Set<String> = ["token", "refresh", "revoke", "end_session"]
                let sent = sandbox.control.requests(provider: provider).filter { secret.contains($0.endpoint) }
                #expect(sent.map { text($0, names) } == expected)
                #expect(sent.allSatisfy { (200...204).contains($0.status) })
            }
        }
    }

    private func refresh(_ token: Secret) -> RefreshRequest {
        RefreshRequest(
            client: Support.ios, refreshToken: token, accessToken: Secret("unused"), idempotencyKey: Self.refreshKey)
    }

    private func text(_ request: RecordedRequest, _ names: [(String, String?)]) -> String {
        #expect(request.header("Content-Length") == String(request.bodyLength))
        let fields = request.headers.filter { $0.name != "Content-Length" }.map { "\($0.name): \($0.value)\n" }
        let target = request.path + (request.query.isEmpty ? "" : "?" + request.query)
        var text = "\(request.method) \(target)\n" + fields.joined() + "\n" + request.bodyText
        text = text.replacing(request.host, with: "{host}")
        for case (let name, let value?) in names { text = text.replacing(value, with: "{\(name)}") }
        return text.replacing(/client_secret=eyJ[\w-]+\.[\w-]+\.[\w-]+/, with: "client_secret={jwt}")
    }

    private func call(
        _ line: String, _ body: String, type: String? = "application/x-www-form-urlencoded",
        accept: String = "application/json", _ fields: [String] = []
    ) -> String {
        let all =
            ["Host: {host}", "Content-Type: \(type ?? "")", "Accept: \(accept)"] + fields
            + ["User-Agent: coatcheck", "Accept-Encoding: gzip, deflate"]
        return line + "\n" + all.joined(separator: "\n") + "\n\n" + body
    }

    private static let basic = "Authorization: Basic d2ViOndlYi1zZWNyZXQ="

    private func code(_ more: String = "&code_verifier=\(verifier)") -> String {
        "grant_type=authorization_code&code={code}&redirect_uri=\(Self.redirect)" + more
    }

    @Test(
        "Cloudentity's requests → only the client id as authentication, idempotency keys for tokens, and no token_type_hint"
    )
    func cloudentity() async throws {
        let path = "POST /cloudentity/example/demo"
        func key(_ key: String) -> [String] { ["X-Idempotency-Key: " + key] }
        try await check(
            "cloudentity",
            [
                call(path + "/oauth2/token", code() + "&client_id=mobile-app", key(Self.key)),
                call(
                    path + "/oauth2/token", "grant_type=refresh_token&refresh_token={rt-1}&client_id=mobile-app",
                    key(Self.refreshKey)),
                call(path + "/oauth2/revoke", "token={rt-2}&client_id=mobile-app"),
                call(path + "/oauth2/revoke", "token={at-2}&client_id=mobile-app"),
                call(path + "/oidc/logout", "id_token_hint={id}&client_id=mobile-app", accept: "*/*"),
            ]
        ) {
            try PresetTests().settings(
                "cloudentity", issuer: $0.baseURL + "/cloudentity/example/demo", clientID: "mobile-app",
                authentication: .none)
        }
    }

    @Test("Google's requests → Basic authentication, an unchanged refresh token, and revocations with token_type_hint")
    func google() async throws {
        try await check(
            "google",
            [
                call("POST /google/token", code(), [Self.basic]),
                call("POST /google/token", "grant_type=refresh_token&refresh_token={rt-1}", [Self.basic]),
                call("POST /google/revoke", "token={rt-1}&token_type_hint=refresh_token", [Self.basic]),
                call("POST /google/revoke", "token={at-2}&token_type_hint=access_token", [Self.basic]),
            ]
        ) {
            try PresetTests().settings(
                "google", issuer: $0.baseURL + "/google", authentication: .clientSecretBasic(Secret("web-secret")))
        }
    }

    @Test("Apple's requests → a JWT as client secret in every call")
    func apple() async throws {
        let client = "&client_id=com.example.app&client_secret={jwt}"
        try await check(
            "apple",
            [
                call("POST /apple/auth/token", code() + client),
                call("POST /apple/auth/token", "grant_type=refresh_token&refresh_token={rt-1}" + client),
                call("POST /apple/auth/revoke", "token={rt-1}&token_type_hint=refresh_token" + client),
                call("POST /apple/auth/revoke", "token={at-2}&token_type_hint=access_token" + client),
            ]
        ) {
            try PresetTests().settings(
                "apple", issuer: $0.baseURL + "/apple", endpoints: EndpointSettings(), clientID: "com.example.app",
                authentication: .apple(
                    teamID: "TEAM000001", keyID: $0.control.clientKey.id, key: Secret($0.control.clientKey.pem)))
        }
    }

    @Test("Microsoft's requests → only the client id as authentication, no revocation, and an end_session call")
    func microsoft() async throws {
        let path = "POST /microsoft/common/oauth2/v2.0"
        try await check(
            "microsoft",
            [
                call(path + "/token", code() + "&client_id=ms-app"),
                call(path + "/token", "grant_type=refresh_token&refresh_token={rt-1}&client_id=ms-app"),
                call(path + "/logout", "id_token_hint={id}&client_id=ms-app", accept: "*/*"),
            ]
        ) { sandbox in
            try PresetTests().settings(
                "microsoft", issuer: sandbox.baseURL + "/microsoft/common/v2.0", clientID: "ms-app",
                authentication: .none
            ) { _ in
            } wire: {
                $0.idToken.issuerTemplate = sandbox.baseURL + "/microsoft/{tenantid}/v2.0"
            }
        }
    }

    @Test("GitHub's requests → secret in the body of the code's call, and Basic for the deletion of the grant")
    func github() async throws {
        try await check(
            "github", nonce: false,
            [
                call(
                    "POST /github/login/oauth/access_token", code() + "&client_id=web&client_secret=web-secret"),
                call(
                    "DELETE /github/applications/web/token", #"{"access_token":"{at-1}"}"#, type: "application/json",
                    [Self.basic]),
            ]
        ) { try PresetTests().github($0.baseURL) }
    }

    @Test("Slack's requests → the code without a verifier, and the user's token as Bearer at auth.revoke")
    func slack() async throws {
        try await check(
            "slack", nonce: false, verifier: false,
            [
                call("POST /slack/api/oauth.v2.access", code("") + "&client_id=web&client_secret=web-secret"),
                call("POST /slack/api/auth.revoke", "", ["Authorization: Bearer {at-1}"]),
            ]
        ) {
            try PresetTests().settings(
                "slack",
                endpoints: EndpointSettings(
                    authorization: EndpointURL($0.baseURL + "/slack/oauth/v2/authorize"),
                    token: EndpointURL($0.baseURL + "/slack/api/oauth.v2.access"),
                    userinfo: EndpointURL($0.baseURL + "/slack/api/users.identity"),
                    revocation: $0.baseURL + "/slack/api/auth.revoke"))
        }
    }

    @Test(
        "Clever's token request → JSON with Basic authentication, even if the secret is empty",
        arguments: [("ios-0001", ""), ("web-0001", "clever-secret")])
    func clever(_ id: String, _ secret: String) async throws {
        let redirect = "clever-ios-0001://oauth"
        try await check(
            "clever", nonce: false, verifier: false,
            [
                call(
                    "POST /clever/oauth/tokens",
                    #"{"grant_type":"authorization_code","code":"{code}","redirect_uri":"\#(redirect)"}"#,
                    type: "application/json",
                    ["Authorization: Basic " + Base64.encode(Array("\(id):\(secret)".utf8))])
            ]
        ) {
            ProviderSettings(
                name: ProviderName(unchecked: "clever"), service: .clever(CleverSettings()),
                endpoints: EndpointSettings(
                    authorization: EndpointURL($0.baseURL + "/clever/oauth/authorize"),
                    token: EndpointURL($0.baseURL + "/clever/oauth/tokens"),
                    api: EndpointURL($0.baseURL + "/clever")),
                clients: [
                    ClientSettings(
                        profile: Support.profile(redirects: [redirect], nonce: false) { client in
                            client.pkce = .unsupported
                            client.scope = []
                        }, clientID: id,
                        authentication: secret.isEmpty ? .blankSecretBasic : .clientSecretBasic(Secret(secret)))
                ])
        }
    }

    @Test(
        "Clover's requests → JSON without grant_type and redirect_uri, and a secret is sent only with the code",
        arguments: [false, true])
    func clover(_ highTrust: Bool) async throws {
        let id = highTrust ? "web" : "AFAKE0001"
        let body =
            highTrust
            ? #"{"code":"{code}","client_id":"web","client_secret":"web-secret"}"#
            : #"{"code":"{code}","code_verifier":"\#(Self.verifier)","client_id":"AFAKE0001"}"#
        try await check(
            "clover", nonce: false,
            [
                call("POST /clover-api/oauth/v2/token", body, type: "application/json"),
                call(
                    "POST /clover-api/oauth/v2/refresh", #"{"client_id":"\#(id)","refresh_token":"{rt-1}"}"#,
                    type: "application/json"),
            ]
        ) {
            ProviderSettings(
                name: ProviderName(unchecked: "clover"),
                service: .clover(CloverSettings(environment: .sandbox, siteURL: "https://app.example.com")),
                endpoints: EndpointSettings(
                    authorization: EndpointURL($0.baseURL + "/clover-web/oauth/v2/authorize"),
                    api: EndpointURL($0.baseURL + "/clover-api")),
                clients: [
                    ClientSettings(
                        profile: Support.profile(redirects: ["https://app.example.com/clover"], nonce: false),
                        clientID: id, authentication: highTrust ? .clientSecretPost(Secret("web-secret")) : .none)
                ])
        }
    }
}
