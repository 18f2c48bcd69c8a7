import Hummingbird

extension TokenEndpoint {
    /// The grant type of a token exchange.
    static let exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
    private static let accessTokenType = "urn:ietf:params:oauth:token-type:access_token"

    /// Exchanges one of the client's own access tokens for an access token for another API (RFC 8693).
    func exchange(_ form: Pairs, client: String, shown: String?) async throws -> Response {
        switch call.settings.text("exchange") {
        case "off": throw OAuthFailure(error: "unsupported_grant_type", description: "not known here")
        case "confidential" where !isConfidential(client):
            throw OAuthFailure(error: "unauthorized_client", description: "no exchange for public clients")
        default: break
        }
        guard let subject = form["subject_token"], form["subject_token_type"] == Self.accessTokenType,
            (form["requested_token_type"] ?? Self.accessTokenType) == Self.accessTokenType,
            form["actor_token"] == nil
        else { throw OAuthFailure.request("an access token for an access token, and nothing else") }
        let now = call.now
        let name = server.name
        let found = call.state.with { storage -> Grant? in
            guard let access = storage.accessTokens[subject], access.expiresAt > now, access.thumbprint == shown,
                access.certificate == nil || access.certificate == call.certificate?.thumbprint,
                let grant = storage.grants[access.grant], !grant.revoked, grant.provider == name,
                grant.clientID == client
            else { return nil }
            return grant
        }
        // RFC 8693 section 2.2.2 requires `invalid_request` for an invalid subject token.
        guard var grant = found else { throw OAuthFailure.request("the subject token is none that is good here") }
        let target = RequestedTarget(form)
        try target.checkForm()
        if let fault = call.faults["refused-target"] {
            throw OAuthFailure(error: fault.value?.text ?? "invalid_target", description: "told to refuse it")
        }
        if let scope = target.scope {
            guard Set(scope.split(separator: " ").map(String.init)).isSubset(of: grant.scopes) else {
                throw OAuthFailure(error: "invalid_scope", description: "wider than what was granted")
            }
            grant.scope = scope
        }
        return try await exchanged(grant, for: target)
    }

    private func exchanged(_ grant: Grant, for target: RequestedTarget) async throws -> Response {
        let (now, lifetime) = (call.now, call.settings.seconds("access_token_lifetime"))
        let minter = TokenMinter(server: server, call: call, grant: grant, user: call.state.user(grant.user))
        let audience = target.audience(call)
        let token = try await minter.accessToken(for: audience, lifetime: lifetime)
        let access = AccessToken(
            grant: grant.id, expiresAt: now + lifetime, audience: audience, scope: grant.scope,
            thumbprint: grant.thumbprint, certificate: minter.certificate)
        call.state.with { storage in
            storage.accessTokens[token] = access
            storage.prune(now: now)
        }
        var members: JSON = [
            "access_token": .string(token), "issued_token_type": .string(Self.accessTokenType),
            "token_type": grant.thumbprint == nil ? "Bearer" : "DPoP", "expires_in": .int(Int(lifetime)),
        ]
        if !grant.scope.isEmpty { members["scope"] = .string(grant.scope) }
        if call.faults.has("exchange-refresh-token") {
            members["refresh_token"] = .string(Random.token("rt-exchanged-"))
        }
        if let extra = call.settings.json["token_answer"] { members = members.merging(extra) }
        return .json(TokenFaults.apply(call.faults, to: members))
    }

    /// Whether the client is registered and has to authenticate.
    private func isConfidential(_ id: String) -> Bool {
        guard let client = call.state.client(id, at: server.name) else { return false }
        return !client.methods.contains("none")
    }
}
