import HTTPTypes
import Hummingbird

/// `/clever`: JSON token calls with Basic, a blank secret for iOS, one-minute codes, and launches that lack a state.
struct CleverProvider: AuthorizationServer {
    let name = "clever"
    let paths = [
        "/.well-known/openid-configuration": "discovery", "/oauth/authorize": "authorize", "/oauth/tokens": "token",
        "/oauth/jwks": "jwks", "/oauth/instant-login": "launch", "/oauth/tokeninfo": "tokeninfo",
        "/v3.0/me": "me", "/userinfo": "userinfo",
    ]
    let defaults = Settings.base.merging([
        "alg": "RS256", "iss_parameter": false, "refresh_token": "never", "code_lifetime": 60,
        "access_token_lifetime": 86_400, "oidc": false, "unknown_clients": "public",
    ])

    func endpoint(method: String, path: String) -> String? {
        if path == "/.well-known/oauth-authorization-server/clever" { return "discovery" }
        guard path.hasPrefix("/clever/") else { return nil }
        let rest = String(path.dropFirst("/clever".count))
        if rest.hasPrefix("/v3.0/users/") { return "users" }
        if rest.hasPrefix("/v3.0/districts/") { return "districts" }
        return paths[rest]
    }

    func tokenForm(_ call: Call) throws -> Pairs {
        guard let body = call.json else {
            throw OAuthFailure(error: "wrong_type", description: "wrong content type")
        }
        var form = Pairs()
        for member in body.members ?? [] {
            guard let text = member.value.text else { throw OAuthFailure.request("\(member.name) is no string") }
            form.add(member.name, text)
        }
        return form
    }

    /// Accepts only Basic, even with a blank secret.
    ///
    /// An unregistered client id is accepted if its secret is blank.
    func authenticate(_ call: Call, form: Pairs) async throws -> String {
        let check = ClientAuthentication(call: call, issuer: call.baseURL + issuerPath, paths: paths)
        guard form["client_secret"] == nil, let (id, secret) = try check.basicCredentials() else {
            throw OAuthFailure.client("Basic authentication is wanted")
        }
        if call.state.client(id, at: name) == nil, secret.isEmpty { return id }
        return try check.check(id: id, secret: secret, method: "client_secret_basic")
    }

    func tokenAnswer(_ call: Call, grant: Grant, members: JSON) -> Response {
        var out = members
        for name in ["scope", "refresh_token"] { out[name] = nil }
        if !call.settings.flag("expires_in") && !call.faults.all.contains(where: { $0.name.hasPrefix("expires-in") }) {
            out["expires_in"] = nil
        }
        if let type = out["token_type"]?.text { out["token_type"] = .string(type.lowercased()) }
        return .json(out)
    }

    func issuesIDToken(_ call: Call, grant: Grant) -> Bool { call.settings.flag("oidc") }

    func refusal(_ call: Call, _ failure: OAuthFailure) -> Response {
        switch failure.error {
        case "invalid_grant": .text("invalid grant: invalid code", status: 400)
        case "invalid_client": .json(["error": "invalid_client", "error_description": "unauthorized"], status: 401)
        case "wrong_type":
            .text(
                "<!doctype html><html><body><h1>Bad Request</h1></body></html>", status: 400,
                type: "text/html; charset=utf-8")
        default: .json(["error": .string(failure.error)], status: failure.status)
        }
    }

    func claims(_ call: Call, grant: Grant, user: SandboxUser) -> JSON {
        var out: JSON = [
            "sub": user.json["clever_id"] ?? .null, "user_id": user.json["clever_user_id"] ?? .null,
            "user_type": user.json["role"] ?? .null, "district": user.json["district"] ?? .null,
            "multi_role_user_id": user.json["clever_id"] ?? .null, "email_verified": false,
        ]
        for name in ["email", "given_name", "family_name"] where user.json[name] != nil { out[name] = user.json[name] }
        return out
    }

    func handle(_ call: Call) async throws -> Response {
        switch call.endpoint {
        case "launch": return launch(call)
        case "authorize":
            var call = call
            if call.faults.has("unauthorized-user") {
                call.faults.all.append(
                    Fault(provider: name, endpoint: "authorize", "error-callback", value: "unauthorized-user"))
            }
            return try await standard(call)
        case "discovery", "jwks":
            guard call.settings.flag("oidc") else { return htmlError(404) }
            return try await standard(call)
        case "token", "refresh": return try await standard(call)
        default: return api(call)
        }
    }

    /// Handles a login that starts at Clever's portal or with an instant-login link.
    ///
    /// The client's first redirect URI gets only a code, and the state is missing.
    private func launch(_ call: Call) -> Response {
        let query = call.queryPairs
        guard let id = query["client_id"] else { return htmlError(400) }
        let registered = call.state.client(id, at: name)?.redirectURIs.first
        guard let target = registered ?? query["redirect_uri"] else { return htmlError(400) }
        if query["sandbox_codeless"] == "1" { return .found(target) }
        let grant = Grant(
            id: Random.token("g-", bytes: 12), provider: name, clientID: id, user: query["sandbox_user"] ?? "ana",
            scope: call.settings.flag("oidc") ? "openid" : "", nonce: nil, authenticatedAt: call.now,
            sid: Random.token("sid-"), extras: [:])
        let code = Random.token("c-")
        let issued = IssuedCode(
            grant: grant.id, redirectURI: target, challenge: nil,
            expiresAt: call.now + call.settings.seconds("code_lifetime"))
        call.state.with { storage in
            storage.grants[grant.id] = grant
            storage.codes[code] = issued
        }
        return .found(Pairs([("code", code), ("scope", "read:user_id read:sis")]).added(to: target))
    }

    private func api(_ call: Call) -> Response {
        guard let grant = BearerCheck(call: call).grant() else {
            return .json(["error": "unauthorized", "message": "bad token"], status: 401)
        }
        let user = call.state.user(grant.user)
        let id = user["clever_id"] ?? ""
        let district = user["district"] ?? ""
        switch call.endpoint {
        case "me":
            let inside = call.settings.text("type_place") != "top"
            var data: JSON = ["id": .string(id), "district": .string(district)]
            if inside { data["type"] = "user" }
            if call.faults.has("userinfo-invalid-sub") { data["id"] = "65000000ffffffffffffffff" }
            var out: JSON = ["type": inside ? "user" : user.json["role"] ?? "user", "data": data]
            out["links"] = [
                ["rel": "self", "uri": "/me"], ["rel": "canonical", "uri": .string("/v3.0/users/" + id)],
                ["rel": "district", "uri": .string("/v3.0/districts/" + district)],
            ]
            return .json(out)
        case "users":
            guard call.path == "/clever/v3.0/users/" + id else { return htmlError(404) }
            return .json(person(user, id: id, district: district))
        case "districts":
            guard call.path == "/clever/v3.0/districts/" + district else { return htmlError(404) }
            return .json(["data": ["id": .string(district), "name": "Example District"]])
        case "userinfo":
            var out = claims(call, grant: grant, user: user)
            out["district_id"] = .string(district)
            out["name"] = [
                "first": user.json["given_name"] ?? .null, "last": user.json["family_name"] ?? .null, "middle": "",
            ]
            if call.faults.has("userinfo-invalid-sub") { out["sub"] = "65000000ffffffffffffffff" }
            return .json(out)
        case "tokeninfo": return .json(["client_id": .string(grant.clientID), "scopes": []])
        default: return htmlError(404)
        }
    }

    private func person(_ user: SandboxUser, id: String, district: String) -> JSON {
        var data: JSON = [
            "id": .string(id), "district": .string(district),
            "name": [
                "first": user.json["given_name"] ?? .null, "middle": "", "last": user.json["family_name"] ?? .null,
            ],
            "roles": .object([
                .init(
                    name: user["role"] ?? "student",
                    value: [
                        "legacy_id": user.json["clever_user_id"] ?? .null, "credentials": ["district_username": "x"],
                    ])
            ]),
        ]
        data["email"] = user.json["email"]
        return ["data": data, "links": [["rel": "self", "uri": .string("/v3.0/users/" + id)]]]
    }

    private func htmlError(_ status: Int) -> Response {
        .text(
            "<!doctype html><html><head><title>Clever</title></head><body><h1>\(status)</h1></body></html>",
            status: status, type: "text/html; charset=utf-8")
    }
}
