import HTTPTypes
import Hummingbird

/// `/apple`: the client secret is a JWT, callbacks are form posts, the name comes once, and userinfo is missing.
struct AppleProvider: AuthorizationServer {
    let name = "apple"
    let paths = [
        "/.well-known/openid-configuration": "discovery", "/auth/authorize": "authorize", "/auth/token": "token",
        "/auth/keys": "jwks", "/auth/revoke": "revoke",
    ]
    let defaults = Settings.base.merging([
        "alg": "RS256", "iss_parameter": false, "refresh_mode": "keep", "code_lifetime": 300,
    ])

    /// The longest lifetime of a client secret that Apple accepts, in seconds.
    static let longestSecret = 15_777_000

    func discovery(_ call: Call) -> JSON {
        [
            "token_endpoint_auth_methods_supported": ["client_secret_post"], "code_challenge_methods_supported": .null,
            "response_modes_supported": ["query", "fragment", "form_post"],
            "scopes_supported": ["openid", "email", "name"],
        ]
    }

    func authenticate(_ call: Call, form: Pairs) async throws -> String {
        guard call.headers[.authorization] == nil else { throw refused("no Authorization field is taken") }
        guard let id = form["client_id"], let secret = form["client_secret"] else { throw refused("no client secret") }
        let registered = call.state.client(id, at: name)
        guard
            let verified = await Assertion.verify(
                secret, keys: (registered?.keys ?? []) + [call.state.clientKey.publicJWK])
        else { throw refused("the client secret's signature does not fit") }
        let claims = verified.claims
        let audience = claims["aud"]?.text
        guard verified.header["alg"]?.text == "ES256", verified.header["kid"]?.text?.isEmpty == false,
            claims["iss"]?.text?.isEmpty == false, claims["sub"]?.text == id,
            audience == "https://appleid.apple.com" || audience == call.baseURL + issuerPath
        else { throw refused("alg, kid, iss, sub or aud of the client secret is wrong") }
        guard let issued = claims["iat"]?.number, let expiry = claims["exp"]?.number, Double(expiry) > call.now,
            expiry - issued <= Self.longestSecret, expiry > issued
        else { throw refused("the client secret's life is wrong") }
        return id
    }

    private func refused(_ text: String) -> OAuthFailure {
        OAuthFailure(status: 400, error: "invalid_client", description: text)
    }

    func refusal(_ call: Call, _ failure: OAuthFailure) -> Response {
        .json(["error": .string(failure.error), "error_description": .string(failure.description)], status: 400)
    }

    func claims(_ call: Call, grant: Grant, user: SandboxUser) -> JSON {
        var out: JSON = ["nonce_supported": true]
        if grant.scopes.contains("email"), user.json["email"] != nil {
            out["email_verified"] = .string(user.json["email_verified"] == false ? "false" : "true")
            out["is_private_email"] = "false"
        }
        return out
    }

    /// The `user` object, sent only at this user's first sign-in with this client.
    func callbackExtras(_ call: Call, grant: Grant, user: SandboxUser) -> Pairs {
        guard grant.scopes.contains("name") || grant.scopes.contains("email") else { return Pairs() }
        let key = "apple/" + grant.clientID + "/" + grant.user
        guard call.state.with({ $0.consented.insert(key).inserted }) else { return Pairs() }
        var out: JSON = [:]
        if grant.scopes.contains("name") {
            out["name"] = [
                "firstName": user.json["given_name"] ?? .null, "lastName": user.json["family_name"] ?? .null,
            ]
        }
        if grant.scopes.contains("email") { out["email"] = user.json["email"] }
        return Pairs([("user", out.serialized)])
    }

    func handle(_ call: Call) async throws -> Response {
        if call.endpoint == "authorize" {
            let scope = call.queryPairs["scope"] ?? ""
            if scope.contains("name") || scope.contains("email"), call.queryPairs["response_mode"] != "form_post" {
                return .page("Not possible", "<p>With scopes, response_mode must be form_post.</p>", status: 400)
            }
        }
        return try await standard(call)
    }
}
