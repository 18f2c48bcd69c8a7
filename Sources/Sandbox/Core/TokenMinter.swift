import Crypto

/// Makes access tokens and id_tokens, including wrong ones.
struct TokenMinter {
    let server: any AuthorizationServer
    let call: Call
    let grant: Grant
    let user: SandboxUser

    private var algorithm: String { user["alg"] ?? call.settings.text("alg") }

    /// The certificate that the access token is bound to; nil if the client is registered for other tokens only.
    ///
    /// The certificate is the connection's, unless a fault demands another one.
    var certificate: String? {
        let client = call.state.client(grant.clientID, at: server.name)
        guard client?.json["tls_client_certificate_bound_access_tokens"]?.flag == true else { return nil }
        return call.faults.has("bound-to-another") ? Digest256.base64url("another") : call.certificate?.thumbprint
    }

    /// Makes an access token that is valid for the given APIs.
    func accessToken(for audience: [String], lifetime: Double) async throws -> String {
        guard call.settings.text("access_token_format") == "jwt" else {
            return Random.token(call.settings.text("token_prefix") + "at-")
        }
        let key = try await call.state.keys.current(server.name, algorithm: algorithm)
        var claims: JSON = [
            "iss": .string(server.issuer(call, grant: grant)), "sub": .string(user.sub),
            "client_id": .string(grant.clientID),
            "aud": audience.count == 1 ? .string(audience[0]) : .array(audience.map { .string($0) }),
            "iat": .int(Int(call.now)), "exp": .int(Int(call.now + lifetime)), "jti": .string(Random.token()),
            "scope": .string(grant.scope),
        ]
        if let certificate { claims["cnf"] = ["x5t#S256": .string(certificate)] }
        return try JWTWriter.sign(claims, header: ["typ": "at+jwt"], with: key)
    }

    func idToken(accessToken: String, refreshing: Bool) async throws -> String {
        var claims: JSON = [
            "iss": .string(server.issuer(call, grant: grant)), "sub": .string(user.sub),
            "aud": .string(grant.clientID), "iat": .int(Int(call.now)),
            "exp": .int(Int(call.now + call.settings.seconds("id_token_lifetime"))),
            "auth_time": .int(Int(grant.authenticatedAt)), "sid": .string(grant.sid),
            "at_hash": .string(Base64URL.encode(Digest256.bytes(accessToken).prefix(16))),
        ]
        // Many providers ignore a request for a stronger sign-in, and some leave out the claims about the sign-in.
        switch call.settings.text("step_up") {
        case "honours", "refuses":
            claims["acr"] = .string(grant.authenticationClass)
            claims["amr"] = grant.authenticationClass == "pwd" ? ["pwd"] : ["pwd", "otp"]
        case "silent": claims["auth_time"] = nil
        default: break
        }
        if let nonce = grant.nonce, !refreshing { claims["nonce"] = .string(nonce) }
        claims = claims.merging(user.claims(scope: grant.scopes))
            .merging(server.claims(call, grant: grant, user: user))
        return try await IDTokenSigner(
            state: call.state, provider: server.name, algorithm: algorithm, faults: call.faults
        ).sign(claims)
    }
}
