import HTTPTypes
import Hummingbird

/// `/linkedin/oauth`: OpenID Connect that lacks nonce and PKCE, takes secrets only in the body, and has its own error for a
/// user who cancels.
struct LinkedInProvider: AuthorizationServer {
    let name = "linkedin"
    let issuerPath = "/linkedin/oauth"
    let prefixes = ["linkedin"]
    let paths = [
        "/.well-known/openid-configuration": "discovery", "/v2/authorization": "authorize",
        "/v2/accessToken": "token", "/v2/userinfo": "userinfo", "/openid/jwks": "jwks",
    ]
    let defaults = Settings.base.merging([
        "alg": "RS256", "iss_parameter": false, "refresh_token": "never", "access_token_lifetime": 5_184_000,
    ])

    func discovery(_ call: Call) -> JSON {
        [
            "token_endpoint_auth_methods_supported": ["client_secret_post"], "response_modes_supported": .null,
            "code_challenge_methods_supported": .null, "backchannel_logout_supported": .null,
            "backchannel_logout_session_supported": .null,
        ]
    }

    func claims(_ call: Call, grant: Grant, user: SandboxUser) -> JSON { ["nonce": .null, "sid": .null] }

    func callbackError(_ call: Call, error: String, description: String) -> Pairs {
        let word = error == "access_denied" ? "user_cancelled_authorize" : error
        return Pairs([("error", word), ("error_description", "The user cancelled the authorization")])
    }

    func handle(_ call: Call) async throws -> Response {
        if call.endpoint == "token", call.form?["code_verifier"] != nil {
            throw OAuthFailure.request("a code_verifier is for native clients")
        }
        return try await standard(call)
    }

    func authenticate(_ call: Call, form: Pairs) async throws -> String {
        if call.headers[.authorization] != nil { throw OAuthFailure.request("client_id is missing") }
        return try await ClientAuthentication(call: call, issuer: call.baseURL + issuerPath, paths: paths)
            .check(form: form)
    }
}
