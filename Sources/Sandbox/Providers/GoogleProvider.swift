import Hummingbird

/// `/google`: a code gets a refresh token only with `access_type=offline`, at the first consent or with `prompt=consent`.
///
/// The answer to a refresh never contains a refresh token.
struct GoogleProvider: AuthorizationServer {
    let name = "google"
    let paths = [
        "/.well-known/openid-configuration": "discovery", "/o/oauth2/v2/auth": "authorize", "/token": "token",
        "/v1/userinfo": "userinfo", "/oauth2/v3/certs": "jwks", "/revoke": "revoke",
    ]
    let defaults = Settings.base.merging(["alg": "RS256", "iss_parameter": false, "refresh_mode": "keep"])

    func issuesRefreshToken(_ call: Call, grant: Grant, refreshing: Bool) -> Bool {
        // A code from the native SDK (serverAuthCode), which has no redirect URI, is always for offline access.
        guard grant.extras["access_type"] == "offline" || grant.extras["redirect_uri"] == nil else { return false }
        let asked = grant.extras["prompt"]?.contains("consent") == true
        let key = "google/" + grant.clientID + "/" + grant.user
        return call.state.with { $0.consented.insert(key).inserted } || asked
    }

    /// Returns whether a redirect URI is accepted; for a serverAuthCode, it must be empty.
    func accepts(redirectURI: String?, for code: IssuedCode, grant: Grant) -> Bool {
        redirectURI == (code.redirectURI ?? "")
    }

    /// Authenticates the client; for a revocation, the token is enough.
    func authenticate(_ call: Call, form: Pairs) async throws -> String {
        guard call.endpoint == "revoke" else {
            return try await ClientAuthentication(call: call, issuer: call.baseURL + issuerPath, paths: paths)
                .check(form: form)
        }
        let token = form["token"] ?? ""
        return call.state.with { storage in
            let grant = storage.accessTokens[token]?.grant ?? storage.refreshTokens[token]?.grant ?? ""
            return storage.grants[grant]?.clientID ?? ""
        }
    }

    func claims(_ call: Call, grant: Grant, user: SandboxUser) -> JSON { ["azp": .string(grant.clientID)] }
}
