/// The app before its update, whose own SDK signs the user in.
///
/// So the provider's tokens are on the phone.
struct OldApp: Sendable {
    /// The provider's answer to the SDK; null before the sign-in.
    var tokens: JSON = .null
    /// The body of the post that moves the app to the broker; null until the app has stored this body.
    var mark: JSON = .null
    private let verifier = Random.token(bytes: 32)
    private let state = Random.token(bytes: 16)

    private static let clientID = "mobile-app"
    private static let redirectURI = "com.example.app.bound:/oauth2redirect"

    /// The path of the provider's page, with the SDK's parameters.
    var authorization: String {
        "/oidc/authorize?"
            + Pairs([
                ("response_type", "code"), ("client_id", Self.clientID), ("redirect_uri", Self.redirectURI),
                ("scope", "openid email profile offline_access"), ("state", state),
                ("code_challenge", Digest256.base64url(verifier)), ("code_challenge_method", "S256"),
            ]).encoded
    }

    /// Returns the code of a callback; nil if the provider refused, or if the callback belongs to another sign-in.
    func code(in callback: String) -> String? {
        let query = Pairs(parsing: callback.drop { $0 != "?" }.dropFirst())
        return query["state"] == state ? query["code"] : nil
    }

    /// Returns the request that exchanges a code for tokens.
    func redeeming(_ code: String) -> PlaygroundRequest {
        Self.tokenRequest([
            ("grant_type", "authorization_code"), ("code", code), ("redirect_uri", Self.redirectURI),
            ("code_verifier", verifier),
        ])
    }

    /// Returns the request that exchanges a refresh token for new tokens.
    static func refreshing(_ token: String) -> PlaygroundRequest {
        tokenRequest([("grant_type", "refresh_token"), ("refresh_token", token)])
    }

    /// Returns the body of the post that moves the app to the broker; each call makes another `login_token`.
    func body(for provider: PlaygroundProvider) -> JSON {
        var kept: JSON = [:]
        for name in ["refresh_token", "id_token"] { kept[name] = tokens[name] }
        return [
            "provider": .string(provider.name), "client": .string(provider.client), "tokens": kept,
            "login_token": .string(Random.token(bytes: 32)), "device": "Phone",
        ]
    }

    /// The tokens as the phone's screen shows them.
    var shownTokens: JSON {
        var shown: JSON = [:]
        for name in ["access_token", "refresh_token", "id_token"] {
            if let token = tokens[name]?.text { shown[name] = .string(Shortened.secret(token)) }
        }
        return shown
    }

    private static func tokenRequest(_ pairs: [(String, String)]) -> PlaygroundRequest {
        PlaygroundRequest(
            method: "POST", to: .provider, target: "/oidc/token",
            headers: [("Content-Type", "application/x-www-form-urlencoded")],
            body: Array(Pairs(pairs + [("client_id", clientID)]).encoded.utf8))
    }
}
