import Hummingbird

/// `/oauth2`: plain OAuth 2.0, with an API call for the identity.
struct OAuth2Provider: AuthorizationServer {
    let name = "oauth2"
    let isOpenID = false
    let paths = [
        "/authorize": "authorize", "/token": "token", "/revoke": "revoke", "/introspect": "introspect",
        "/api/me": "userinfo_api",
    ]
    let defaults = Settings.base.merging(["iss_parameter": false])

    func endpoint(method: String, path: String) -> String? {
        if path == "/.well-known/oauth-authorization-server/oauth2" { return "discovery" }
        guard path.hasPrefix("/oauth2/") else { return nil }
        let known = paths[String(path.dropFirst("/oauth2".count))]
        return known == "userinfo_api" ? "userinfo" : known
    }

    func handle(_ call: Call) async throws -> Response {
        if call.endpoint == "userinfo" { return me(call) }
        return try await standard(call)
    }

    private func me(_ call: Call) -> Response {
        guard let grant = BearerCheck(call: call).grant() else { return BearerCheck(call: call).challenge() }
        let user = call.state.user(grant.user)
        var profile: JSON = [:]
        for name in ["name", "email", "email_verified"] where user.json[name] != nil {
            profile[name] = user.json[name]
        }
        var id: JSON = .string(user.sub)
        if call.faults.has("userinfo-invalid-sub") { id = "somebody-else" }
        var out: JSON = ["id": id, "profile": profile, "roles": ["reader", "editor"]]
        if call.faults.has("userinfo-missing-sub") { out["id"] = nil }
        if call.faults.has("userinfo-not-object") { return .json(.array([out])) }
        return .json(Quirks.identity(out, call.faults))
    }
}
