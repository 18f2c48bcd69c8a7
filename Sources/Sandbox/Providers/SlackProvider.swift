import Hummingbird

/// `/slack`: the user's token in `authed_user`, `ok: false` with 200, and scopes with commas.
struct SlackProvider: AuthorizationServer {
    let name = "slack"
    let isOpenID = false
    let paths = [
        "/oauth/v2/authorize": "authorize", "/api/oauth.v2.access": "token", "/api/users.identity": "userinfo",
        "/api/auth.revoke": "revoke",
    ]
    let defaults = Settings.base.merging([
        "iss_parameter": false, "refresh_token": "never", "basic_encoding": "raw", "response_type_optional": true,
    ])

    func tokenForm(_ call: Call) throws -> Pairs {
        var form = call.form ?? Pairs()
        if form["grant_type"] == nil { form.add("grant_type", "authorization_code") }
        return form
    }

    private func userID(_ user: SandboxUser) -> JSON {
        .string("U" + Digest256.hex(Digest256.bytes(user.sub).prefix(4)).uppercased())
    }

    func tokenAnswer(_ call: Call, grant: Grant, members: JSON) -> Response {
        let user = call.state.user(grant.user)
        let scope = (grant.extras["user_scope"] ?? "").split(whereSeparator: { $0 == " " || $0 == "," })
        var authed: JSON = [
            "id": userID(user), "scope": .string(scope.joined(separator: ",")),
            "access_token": members["access_token"] ?? .null, "token_type": "user",
        ]
        if let refresh = members["refresh_token"] {
            authed["refresh_token"] = refresh
            authed["expires_in"] = members["expires_in"]
        }
        var out: JSON = [
            "ok": true, "app_id": "AFAKE0001", "authed_user": authed,
            "team": ["id": "TFAKE0001", "name": "Example"], "enterprise": .null, "is_enterprise_install": false,
        ]
        let bot = grant.extras["scope"] ?? ""
        if !bot.isEmpty {
            out["scope"] = .string(bot.split(whereSeparator: { $0 == " " || $0 == "," }).joined(separator: ","))
            out["token_type"] = "bot"
            out["access_token"] = .string(Random.token("xoxb-"))
            out["bot_user_id"] = "UBOT00001"
        }
        if let error = members["error"] { out = ["ok": false, "error": error] }
        return .json(out)
    }

    func refusal(_ call: Call, _ failure: OAuthFailure) -> Response {
        let names = ["invalid_grant": "invalid_code", "invalid_client": "bad_client_secret"]
        return .json(["ok": false, "error": .string(names[failure.error] ?? failure.error)])
    }

    func handle(_ call: Call) async throws -> Response {
        guard call.endpoint == "userinfo" || call.endpoint == "revoke" else { return try await standard(call) }
        guard let grant = BearerCheck(call: call).grant() else {
            return .json(["ok": false, "error": "invalid_auth"])
        }
        if call.endpoint == "revoke" {
            call.state.with { $0.revoke(grant: grant.id) }
            return .json(["ok": true, "revoked": true])
        }
        let user = call.state.user(grant.user)
        var person: JSON = ["name": user.json["name"] ?? .null, "id": userID(user)]
        if grant.extras["user_scope"]?.contains("identity.email") == true { person["email"] = user.json["email"] }
        if call.faults.has("userinfo-invalid-sub") { person["id"] = "UOTHER" }
        return .json(["ok": true, "user": person, "team": ["id": "TFAKE0001"]])
    }
}
