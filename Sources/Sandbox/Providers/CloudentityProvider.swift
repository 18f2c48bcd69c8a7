import Hummingbird

/// `/cloudentity/example/demo`, and `/demo` as with a vanity domain: OpenID Connect with a special form of errors.
struct CloudentityProvider: AuthorizationServer {
    let name: String
    let issuerPath: String
    let prefixes: [String]
    let paths = [
        "/.well-known/openid-configuration": "discovery", "/.well-known/jwks.json": "jwks",
        "/oauth2/authorize": "authorize", "/oauth2/token": "token", "/oauth2/revoke": "revoke",
        "/oauth2/introspect": "introspect", "/par": "par", "/userinfo": "userinfo", "/oidc/logout": "end_session",
    ]
    let defaults = Settings.base.merging(["idempotency": true])

    static let hosted = CloudentityProvider(
        name: "cloudentity", issuerPath: "/cloudentity/example/demo", prefixes: ["cloudentity"])
    static let vanity = CloudentityProvider(name: "cloudentity-vanity", issuerPath: "/demo", prefixes: ["demo"])

    func endpoint(method: String, path: String) -> String? {
        if path.hasPrefix(issuerPath + "/") { return paths[String(path.dropFirst(issuerPath.count))] }
        if path == "/.well-known/oauth-authorization-server" + issuerPath { return "discovery" }
        return path.hasSuffix("/.well-known/openid-configuration") ? "missing" : nil
    }

    func tokenAnswer(_ call: Call, grant: Grant, members: JSON) -> Response {
        .json(with(grant, members))
    }

    private func with(_ grant: Grant, _ members: JSON) -> JSON {
        var out = members
        if let type = out["token_type"]?.text { out["token_type"] = .string(type.lowercased()) }
        out["grant_id"] = .string(grant.id)
        return out
    }

    func refusal(_ call: Call, _ failure: OAuthFailure) -> Response {
        if call.endpoint == "par" {
            return .json(
                [
                    "error": .string(failure.error), "error_code": .string(failure.error.uppercased()),
                    "status_code": .int(failure.status), "details": [:],
                ], status: failure.status)
        }
        return .json(
            [
                "error": .string(failure.error), "error_code": .int(failure.status),
                "error_hint": .string(failure.description),
            ], status: failure.status)
    }

    func extra(_ call: Call) async throws -> Response {
        .json(["error": "not_found", "error_code": 404, "error_hint": "no such workspace"], status: 404)
    }
}
