/// Makes logout tokens (OpenID Connect Back-Channel Logout 1.0 section 2.4) and posts them.
struct BackchannelLogout {
    /// The reason why the request for a logout token is invalid.
    struct Refused: Error, CustomStringConvertible {
        let description: String
    }

    let state: SandboxState

    /// Makes a token for `{provider, client_id, sub | user, sid, url, mutate, header, alg, signature}`, and sends it if there
    /// is a `url`.
    func send(_ json: JSON) async throws -> JSON {
        guard let server = Catalogue.named(json["provider"]?.text ?? "oidc") as? any AuthorizationServer else {
            throw Refused(description: "unknown provider")
        }
        let settings = state.settings(of: server)
        let now = Int(state.now)
        var claims: JSON = [
            "iss": .string(state.baseURL + server.issuerPath), "aud": json["client_id"] ?? "web", "iat": .int(now),
            "exp": .int(now + 120), "jti": .string(Random.token()),
            "events": ["http://schemas.openid.net/event/backchannel-logout": [:]],
        ]
        if let user = json["user"]?.text { claims["sub"] = .string(state.user(user).sub) }
        for name in ["sub", "sid"] where json[name] != nil { claims[name] = json[name] }
        if let mutations = json["mutate"] { claims = claims.merging(mutations) }
        var header: JSON = ["typ": "logout+jwt"]
        if let mutations = json["header"] {
            for member in mutations.members ?? [] { header[member.name] = member.value }
        }
        let token = try await token(claims, header: header, json, server: server, settings: settings)
        var result: JSON = ["token": .string(token), "claims": claims]
        if let url = json["url"]?.text {
            let answer = try await PlainHTTP.post(url, form: Pairs([("logout_token", token)]).encoded)
            result["status"] = .int(answer.status)
            result["body"] = .string(answer.body)
        }
        return result
    }

    private func token(
        _ claims: JSON, header: JSON, _ json: JSON, server: any AuthorizationServer, settings: Settings
    ) async throws -> String {
        let algorithm = json["alg"]?.text ?? settings.text("alg")
        if algorithm == "none" { return JWTWriter.unsigned(claims) }
        var key = try await state.keys.current(server.name, algorithm: algorithm)
        if json["signature"]?.text == "foreign" {
            key = KeyRings.Entry(
                id: key.id, algorithm: algorithm,
                key: try await SigningKey.make(algorithm: algorithm, generation: -1))
        }
        return try JWTWriter.sign(claims, header: header, with: key)
    }
}
