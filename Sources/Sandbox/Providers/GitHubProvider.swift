import HTTPTypes
import Hummingbird

/// `/github`: form-encoded token answers, errors with 200, numeric ids, and an email address from a second call.
struct GitHubProvider: AuthorizationServer {
    let name = "github"
    let isOpenID = false
    let paths = [
        "/login/oauth/authorize": "authorize", "/login/oauth/access_token": "token", "/user": "userinfo",
        "/user/emails": "emails",
    ]
    let defaults = Settings.base.merging([
        "refresh_token": "never", "basic_encoding": "raw", "response_type_optional": true,
    ])

    func endpoint(method: String, path: String) -> String? {
        if method == "DELETE", path.hasPrefix("/github/applications/"), path.hasSuffix("/token") { return "revoke" }
        return path.hasPrefix(issuerPath + "/") ? paths[String(path.dropFirst(issuerPath.count))] : nil
    }

    /// GitHub publishes no metadata, but callbacks name this issuer.
    func callbackIssuer(_ call: Call, grant: Grant?) -> String { call.baseURL + "/github/login/oauth" }

    func accepts(redirectURI: String?, for code: IssuedCode, grant: Grant) -> Bool {
        redirectURI == nil || code.redirectURI == nil || code.redirectURI == redirectURI
    }

    func tokenForm(_ call: Call) throws -> Pairs {
        var form = call.form ?? Pairs()
        if form["grant_type"] == nil { form.add("grant_type", "authorization_code") }
        return form
    }

    func tokenAnswer(_ call: Call, grant: Grant, members: JSON) -> Response {
        var out = members
        out["expires_in"] = call.settings.flag("expiring_tokens") ? members["expires_in"] : nil
        if out["refresh_token"] != nil { out["refresh_token_expires_in"] = 15_897_600 }
        if let type = out["token_type"]?.text { out["token_type"] = .string(type.lowercased()) }
        if let scope = out["scope"]?.text { out["scope"] = .string(scope.split(separator: " ").joined(separator: ",")) }
        return encoded(out, call)
    }

    func refusal(_ call: Call, _ failure: OAuthFailure) -> Response {
        let names = [
            "invalid_grant": "bad_verification_code", "invalid_client": "incorrect_client_credentials",
        ]
        return encoded(
            [
                "error": .string(names[failure.error] ?? failure.error),
                "error_description": .string(failure.description), "error_uri": "https://docs.example.org/oauth",
            ], call)
    }

    private func encoded(_ members: JSON, _ call: Call) -> Response {
        if call.acceptsJSON { return .json(members) }
        var pairs = Pairs()
        for member in members.members ?? [] {
            pairs.add(member.name, member.value.text ?? member.value.serialized)
        }
        return .text(pairs.encoded, type: "application/x-www-form-urlencoded; charset=utf-8")
    }

    /// Revokes the token in the JSON body.
    ///
    /// The client, named in the path, authenticates with HTTP Basic.
    private func revoke(_ call: Call) -> Response {
        let authentication = ClientAuthentication(call: call, issuer: "", paths: [:])
        guard let (id, secret) = try? authentication.basicCredentials(),
            (try? authentication.check(id: id, secret: secret, method: "client_secret_basic")) != nil,
            call.path == "/github/applications/" + id + "/token"
        else { return .json(["message": "Bad credentials", "status": "401"], status: 401) }
        let token = call.json?["access_token"]?.text ?? ""
        let ended = call.state.with { storage -> Bool in
            guard let grant = storage.accessTokens[token].flatMap({ storage.grants[$0.grant] }),
                grant.provider == name, grant.clientID == id, !grant.revoked
            else { return false }
            storage.revoke(grant: grant.id)
            return true
        }
        return ended ? .empty(204) : .json(["message": "Not Found", "status": "404"], status: 404)
    }

    func handle(_ call: Call) async throws -> Response {
        if call.endpoint == "revoke" { return revoke(call) }
        guard call.endpoint == "userinfo" || call.endpoint == "emails" else { return try await standard(call) }
        guard call.headers[.userAgent] != nil else {
            return .text("Request forbidden by administrative rules. A User-Agent is wanted.\n", status: 403)
        }
        guard let grant = BearerCheck(call: call).grant() else {
            return .json(["message": "Bad credentials", "status": "401"], status: 401)
        }
        let user = call.state.user(grant.user)
        let email: JSON = user.json["email"] ?? .null
        if call.endpoint == "emails" {
            return .json([
                ["email": .string(grant.user + "@users.noreply.example.org"), "primary": false, "verified": true],
                ["email": email, "primary": true, "verified": user.json["email_verified"] ?? false],
            ])
        }
        var out: JSON = ["login": .string(grant.user), "id": user.json["id"] ?? 1, "node_id": "MDQ6VXNlcjE="]
        out["name"] = user.json["name"]
        out["email"] = .null
        if call.faults.has("userinfo-invalid-sub") { out["id"] = 4711 }
        return .json(out)
    }
}
