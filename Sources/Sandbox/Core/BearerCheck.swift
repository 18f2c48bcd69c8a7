import HTTPTypes
import Hummingbird

/// Finds the grant behind a bearer token.
struct BearerCheck {
    let call: Call

    /// nil: no token, or one that is unknown, expired or revoked, or another provider's.
    func grant(token: String? = nil) -> Grant? {
        guard let token = token ?? call.bearer else { return nil }
        let now = call.now
        let name = call.provider.name
        return call.state.with { storage in
            guard let access = storage.accessTokens[token], access.expiresAt > now,
                let grant = storage.grants[access.grant], !grant.revoked, grant.provider == name || name == "api"
            else { return nil }
            return grant
        }
    }

    /// A 401 as RFC 6750 section 3 has it.
    func challenge() -> Response {
        .json(
            ["error": "invalid_token", "error_description": "The access token is unknown or has expired."],
            status: 401,
            headers: [("WWW-Authenticate", #"Bearer realm="sandbox", error="invalid_token""#)])
    }
}
