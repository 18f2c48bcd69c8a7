/// Makes id_tokens in the form of the providers' native SDKs (Google's Credential Manager, Sign in with Apple, Facebook's
/// Limited Login).
///
/// With faults at the endpoint `native-id-token`, it also makes wrong id_tokens.
struct NativeIDToken {
    let state: SandboxState

    struct Refused: Error, CustomStringConvertible {
        let description: String
    }

    /// Signs a token for `{client_id, user, nonce, scope, aud, azp, claims}`.
    ///
    /// `aud` defaults to the client, and `claims` override all others.
    func issue(_ json: JSON, provider name: String) async throws -> String {
        guard let server = Catalogue.named(name) as? any AuthorizationServer, let client = json["client_id"]?.text
        else {
            throw Refused(description: "provider or client_id")
        }
        let settings = state.settings(of: server)
        let user = state.user(json["user"]?.text ?? "ana")
        let scopes = Set((json["scope"]?.text ?? "openid email profile").split(separator: " ").map(String.init))
        let now = Int(state.now)
        var claims: JSON = [
            "iss": .string(state.baseURL + server.issuerPath), "sub": .string(user.sub),
            "aud": json["aud"] ?? .string(client), "iat": .int(now),
            "exp": .int(now + Int(settings.seconds("id_token_lifetime"))),
        ]
        claims["nonce"] = json["nonce"]
        claims["azp"] = json["azp"]
        claims = claims.merging(user.claims(scope: scopes))
        // The `sub` of Limited Login is the id from the Graph API.
        if name == "facebook" { claims["sub"] = .string(user["id"] ?? "1") }
        if let over = json["claims"] { claims = claims.merging(over) }
        let faults = state.takeFaults(provider: name, endpoint: "native-id-token") { "" }
        return try await IDTokenSigner(
            state: state, provider: name, algorithm: user["alg"] ?? settings.text("alg"), faults: faults
        ).sign(claims)
    }
}
