import HTTPTypes
import Hummingbird

/// `/facebook`: the Graph API's own errors, ids as text, and email addresses that may be missing.
///
/// A refusal by the user has the parameters of OAuth and also Facebook's own. Facebook has neither refresh tokens nor
/// revocation. It has keys for the id_tokens of Limited Login.
struct FacebookProvider: AuthorizationServer {
    let name = "facebook"
    let isOpenID = false
    let paths = [
        "/v24.0/dialog/oauth": "authorize", "/v24.0/oauth/access_token": "token", "/v24.0/me": "userinfo",
        "/.well-known/oauth/openid/jwks/": "jwks",
    ]
    let defaults = Settings.base.merging([
        "iss_parameter": false, "refresh_token": "never", "basic_encoding": "raw", "response_type_optional": true,
        "access_token_lifetime": 5_184_000, "alg": "RS256",
    ])

    func tokenForm(_ call: Call) throws -> Pairs {
        var form = call.form ?? call.queryPairs
        if form["grant_type"] == nil { form.add("grant_type", "authorization_code") }
        return form
    }

    func tokenAnswer(_ call: Call, grant: Grant, members: JSON) -> Response {
        var out = members
        // Facebook's answer omits the scope.
        out["scope"] = nil
        if let type = out["token_type"]?.text { out["token_type"] = .string(type.lowercased()) }
        return .json(out)
    }

    func refusal(_ call: Call, _ failure: OAuthFailure) -> Response {
        graphError(failure.description, code: failure.error == "invalid_grant" ? 100 : 101)
    }

    private func graphError(_ message: String, code: Int, status: Int = 400) -> Response {
        .json(
            [
                "error": [
                    "message": .string(message), "type": "OAuthException", "code": .int(code),
                    "fbtrace_id": "AFAKE00000000000000000",
                ]
            ], status: status)
    }

    /// Returns the parameters of an error.
    ///
    /// A refusal by the user has OAuth's parameters and Facebook's own. All other errors have only Facebook's own.
    func callbackError(_ call: Call, error: String, description: String) -> Pairs {
        guard error == "access_denied" else {
            return Pairs([("error_code", "1349042"), ("error_message", description)])
        }
        return Pairs([
            ("error", error), ("error_code", "200"), ("error_description", "Permissions error"),
            ("error_reason", "user_denied"),
        ])
    }

    func handle(_ call: Call) async throws -> Response {
        guard call.endpoint == "userinfo" else { return try await standard(call) }
        guard let grant = BearerCheck(call: call).grant() else {
            return graphError("Invalid OAuth access token - Cannot parse access token", code: 190)
        }
        let user = call.state.user(grant.user)
        let wanted = (call.queryPairs["fields"] ?? "id,name").split(separator: ",").map(String.init)
        var out: JSON = [:]
        if wanted.contains("name") { out["name"] = user.json["name"] }
        if wanted.contains("email"), grant.scopes.contains("email") { out["email"] = user.json["email"] }
        out["id"] = .string(user["id"] ?? "1")
        if call.faults.has("userinfo-invalid-sub") { out["id"] = "4711" }
        return .json(out)
    }
}
