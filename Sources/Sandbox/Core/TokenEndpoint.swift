import HTTPTypes
import Hummingbird

/// The token endpoint, which exchanges codes and refresh tokens for new tokens.
struct TokenEndpoint {
    let server: any AuthorizationServer
    let call: Call

    func answer() async throws -> Response {
        guard call.method == .post else { throw OAuthFailure.request("POST is wanted") }
        let form = try server.tokenForm(call)
        if let name = form.repeatedName(but: RequestedTarget.repeatable) {
            throw OAuthFailure.request("\(name) comes twice")
        }
        let client = try await server.authenticate(call, form: form)
        if let replay = replayed(client: client) { return replay }
        switch form["grant_type"] {
        case "authorization_code": return try await redeem(form, client: client, shown: try await possession())
        case "refresh_token":
            // With the setting `spends_before_proof`, the sandbox acts like one real server. This server spends the refresh
            // token, and then refuses the proof because of its nonce.
            if call.settings.flag("spends_before_proof") { try spend(form, client: client) }
            let thumbprint = try await possession()
            return try await refresh(form, client: client, shown: thumbprint)
        case Self.exchangeGrant: return try await exchange(form, client: client, shown: try await possession())
        case nil: throw OAuthFailure.request("grant_type is missing")
        default: throw OAuthFailure(error: "unsupported_grant_type", description: "not known here")
        }
    }

    /// Returns the thumbprint of the key in the request's proof; nil if there is no proof.
    private func possession() async throws -> String? {
        let possession = ProofOfPossession(call: call, role: .authorization)
        return possession.isOn ? try await possession.check()?.thumbprint : nil
    }

    /// Spends the refresh token in a request before the request's proof is checked.
    private func spend(_ form: Pairs, client: String) throws {
        let spent = call.state.with { storage -> Bool in
            guard let token = form["refresh_token"], let known = storage.refreshTokens[token], !known.spent else {
                return false
            }
            storage.refreshTokens[token]?.spent = true
            return true
        }
        guard spent else { throw OAuthFailure.grant("the refresh token is unknown, used or expired") }
    }

    private func redeem(_ form: Pairs, client: String, shown: String?) async throws -> Response {
        guard let code = form["code"] else { throw OAuthFailure.request("code is missing") }
        let now = call.now
        let name = server.name
        enum Found { case nothing, replayed, expired, good(IssuedCode, Grant) }
        let found = call.state.with { storage -> Found in
            guard let issued = storage.codes[code], let grant = storage.grants[issued.grant], grant.provider == name
            else { return .nothing }
            if issued.used {
                // Revoke everything that the code has already granted (RFC 6749 section 4.1.2).
                storage.revoke(grant: grant.id)
                return .replayed
            }
            return issued.expiresAt > now ? .good(issued, grant) : .expired
        }
        guard case .good(let issued, var grant) = found else {
            if case .replayed = found { throw OAuthFailure.grant("the code was used before") }
            throw OAuthFailure.grant("the code is unknown or has expired")
        }
        guard grant.clientID == client else { throw OAuthFailure.grant("the code is another client's") }
        guard server.accepts(redirectURI: form["redirect_uri"], for: issued, grant: grant) else {
            throw OAuthFailure.grant("redirect_uri is not the authorize request's")
        }
        try checkVerifier(form["code_verifier"], challenge: issued.challenge)
        let target = RequestedTarget(form, isScoped: false)
        try target.check(call, of: grant)
        if let named = grant.extras["dpop_jkt"], named != shown {
            throw OAuthFailure.grant("the code is another key's")
        }
        grant.thumbprint = shown
        let first = call.state.with { storage -> Bool in
            guard storage.codes[code]?.used == false else { return false }
            storage.codes[code]?.used = true
            return true
        }
        guard first else { throw OAuthFailure.grant("the code was used before") }
        call.state.with { [grant] in $0.grants[grant.id]?.thumbprint = grant.thumbprint }
        return try await grantTokens(grant, for: target, refreshing: nil)
    }

    private func checkVerifier(_ verifier: String?, challenge: String?) throws {
        guard let challenge else {
            if verifier != nil { throw OAuthFailure.grant("a code_verifier without a code_challenge") }
            return
        }
        // With `check_verifier: false`, the sandbox acts like one real server, which checks the verifier only if the client is
        // configured for it.
        if call.settings.json["check_verifier"]?.flag == false { return }
        guard let verifier, (43...128).contains(verifier.utf8.count), Digest256.base64url(verifier) == challenge else {
            throw OAuthFailure.grant("code_verifier does not fit the code_challenge")
        }
    }

    private func refresh(_ form: Pairs, client: String, shown: String?) async throws -> Response {
        guard let token = form["refresh_token"] else { throw OAuthFailure.request("refresh_token is missing") }
        let strict = call.faults.has("rotate-strict") || call.settings.text("refresh_mode") == "rotate-strict"
        let spends = ["rotate", "rotate-strict"].contains(call.settings.text("refresh_mode"))
        let isSpentAlready = call.settings.flag("spends_before_proof")
        let isPublic = call.state.client(client, at: server.name)?.secret == nil
        let now = call.now
        let name = server.name
        let (call, target) = (call, RequestedTarget(form))
        enum Found { case nothing, refused(OAuthFailure), good(Grant) }
        let found = call.state.with { storage -> Found in
            guard let known = storage.refreshTokens[token], let grant = storage.grants[known.grant],
                grant.provider == name, grant.clientID == client, !grant.revoked, known.expiresAt > now
            else { return .nothing }
            if known.spent, !isSpentAlready {
                if strict { storage.revoke(grant: grant.id) }
                return .nothing
            }
            // A public client's refresh token is bound to the key of the client's proofs, like its access token (RFC 9449
            // section 5).
            if isPublic, let bound = grant.thumbprint, bound != shown { return .nothing }
            // Check the target first, because a refused request must leave the refresh token unspent.
            do throws(OAuthFailure) { try target.check(call, of: grant) } catch { return .refused(error) }
            if spends { storage.refreshTokens[token]?.spent = true }
            return .good(grant)
        }
        guard case .good(var grant) = found else {
            if case .refused(let failure) = found { throw failure }
            throw OAuthFailure.grant("the refresh token is unknown, used, expired or another key's")
        }
        grant.thumbprint = shown
        call.state.with { [grant] in $0.grants[grant.id]?.thumbprint = shown }
        if let narrowed = target.scope { grant.scope = narrowed }
        return try await grantTokens(grant, for: target, refreshing: token)
    }

    /// Issues the tokens of a grant; `refreshing` is the refresh token in the request, or nil if the request has a code.
    private func grantTokens(_ grant: Grant, for target: RequestedTarget, refreshing: String?) async throws -> Response
    {
        let settings = call.settings
        let now = call.now
        let user = call.state.user(grant.user)
        let minter = TokenMinter(server: server, call: call, grant: grant, user: user)
        let lifetime = settings.seconds("access_token_lifetime")
        let audience = target.audience(call)
        let access = try await minter.accessToken(for: audience, lifetime: lifetime)
        let keeps = ["keep", "none"].contains(settings.text("refresh_mode"))
        var refreshToken: String?
        if server.issuesRefreshToken(call, grant: grant, refreshing: refreshing != nil), refreshing == nil || !keeps {
            refreshToken = Random.token(settings.text("token_prefix") + "rt-")
        }
        let (issued, certificate) = (refreshToken, minter.certificate)
        let voids = refreshing != nil && settings.flag("voids_older_tokens")
        call.state.with { [grant] storage in
            if voids { storage.voidAccessTokens(of: grant.id, at: now) }
            storage.accessTokens[access] = AccessToken(
                grant: grant.id, expiresAt: now + lifetime, audience: audience, scope: grant.scope,
                refreshed: refreshing != nil, thumbprint: grant.thumbprint, certificate: certificate)
            if let issued {
                storage.refreshTokens[issued] = RefreshToken(
                    grant: grant.id, expiresAt: now + settings.seconds("refresh_token_lifetime"))
            }
            if let refreshing { storage.refreshTokens[refreshing]?.successor = issued }
            storage.prune(now: now)
        }
        var members: JSON = [
            "access_token": .string(access), "token_type": grant.thumbprint == nil ? "Bearer" : "DPoP",
            "expires_in": .int(Int(lifetime)),
        ]
        if !grant.scope.isEmpty { members["scope"] = .string(grant.scope) }
        if let refreshToken { members["refresh_token"] = .string(refreshToken) }
        let wantsIDToken = refreshing == nil || settings.flag("id_token_on_refresh")
        if server.issuesIDToken(call, grant: grant), wantsIDToken, !call.faults.has("no-id-token") {
            members["id_token"] = .string(
                try await minter.idToken(accessToken: access, refreshing: refreshing != nil))
        }
        if let extra = settings.json["token_answer"] { members = members.merging(extra) }
        members = TokenFaults.apply(call.faults, to: members)
        let response = server.tokenAnswer(call, grant: grant, members: members)
        if settings.flag("idempotency"), let key = idempotencyKey(client: grant.clientID) {
            let collector = BodyCollector()
            try await response.body.write(collector)
            let text = String(decoding: collector.bytes, as: UTF8.self)
            call.state.with { $0.idempotent[key] = (now, text) }
        }
        return response
    }

    /// Returns the first answer again if `X-Idempotency-Key` is repeated within a minute, like Cloudentity.
    private func replayed(client: String) -> Response? {
        guard call.settings.flag("idempotency"), let key = idempotencyKey(client: client) else { return nil }
        let now = call.now
        guard let (at, body) = call.state.with({ $0.idempotent[key] }), now - at < 60 else { return nil }
        return .text(
            body, type: "application/json",
            headers: [("Cache-Control", "no-store"), ("X-Idempotent-Replayed", "true")])
    }

    private func idempotencyKey(client: String) -> String? {
        guard let key = call.header("X-Idempotency-Key"), (32...255).contains(key.utf8.count) else { return nil }
        return server.name + "/" + client + "/" + key
    }
}
