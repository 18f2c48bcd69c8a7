import Broker

extension OAuthEngine {
    /// Revokes tokens in the client's style (SEC-63): with RFC 7009 first the refresh token, then the access token; otherwise
    /// only the access token.
    ///
    /// Throws the first failure against which a retry can help, or else the last failure.
    ///
    /// The revocation counts as done without a call in three cases:
    /// - The style is `none`.
    /// - The endpoint is unknown.
    /// - The style sends the access token as Bearer, but the token is bound.
    func revoke(_ tokens: TokenSet, client name: ClientName, by deadline: Duration) async throws(ProviderFailure) {
        let client = try client(name)
        let style = client.wire.revocation.style
        guard style != .none,
            let endpoint =
                if let fixed = client.revocation { fixed } else { try await metadata(for: client).usable(.revocation) }
        else { return }
        // Only an unbound access token may authenticate a revocation, because a bound token needs a proof of its key or its
        // certificate.
        let isBearers = tokens.key == nil && tokens.certificate == nil && client.profile.senderConstraint == .off
        switch style {
        case .none: return
        case .rfc7009:
            // If the provider refuses one token, the other token still has to be revoked.
            var first: ProviderFailure?
            let all = [("refresh_token", tokens.refreshToken), ("access_token", tokens.accessToken)]
            for case (let hint, let token?) in all where !token.reveal().isEmpty {
                do throws(ProviderFailure) {
                    try await revoke(
                        token, hint, at: endpoint, client: client, bearer: isBearers ? tokens.accessToken : nil,
                        by: deadline)
                } catch {
                    first = Self.moreUrgent(first, error)
                }
            }
            if let first { throw first }
        case .basicDelete: try await deleteGrant(tokens.accessToken, at: endpoint, client: client, by: deadline)
        case .bearerPost:
            guard isBearers else { return }
            try checkRevoked(
                try await client.caller.send(bearerPost([], to: endpoint, token: tokens.accessToken), by: deadline))
        }
    }

    /// Returns the first failure if a retry can help against it, and otherwise the second.
    private static func moreUrgent(_ first: ProviderFailure?, _ second: ProviderFailure) -> ProviderFailure {
        guard let first else { return second }
        switch first {
        case .notSent, .retryable, .lost: return first
        case .rejected, .unusable, .identityRejected: return second
        }
    }

    private func revoke(
        _ token: Secret, _ hint: String, at endpoint: EndpointURL, client: EngineClient, bearer: Secret?,
        by deadline: Duration
    ) async throws(ProviderFailure) {
        let settings = client.wire.revocation
        let pairs = [(name: "token", value: token.reveal())] + (settings.hint ? [("token_type_hint", hint)] : [])
        var answer = try await post(pairs, to: endpoint, as: .revocation, client: client, by: deadline)
        if settings.bearerFallback, let bearer, [401, 403].contains(answer.status) {
            answer = try await client.caller.send(bearerPost(pairs, to: endpoint, token: bearer), by: deadline)
        }
        try checkRevoked(answer)
    }

    private func bearerPost(
        _ pairs: [(name: String, value: String)], to url: EndpointURL, token: Secret
    ) -> ProviderRequest {
        ProviderRequest(
            method: "POST", url: url, connection: .single,
            headers: [
                ("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"),
                ("Authorization", "Bearer " + token.reveal()),
            ], body: Array(FormPairs.encode(pairs).utf8))
    }

    private func deleteGrant(
        _ token: Secret, at endpoint: EndpointURL, client: EngineClient, by deadline: Duration
    ) async throws(ProviderFailure) {
        // GitHub's call accepts only Basic, even if the token endpoint takes the secret in the body.
        let proof = client.authenticator.basicHeader.map { [$0] } ?? []
        var writer = JSONWriter()
        writer.object { $0.member("access_token", token.reveal()) }
        let answer = try await client.caller.send(
            ProviderRequest(
                method: "DELETE", url: endpoint, connection: .single,
                headers: [("Content-Type", "application/json"), ("Accept", "application/json")] + proof
                    + client.wire.tokenRequest.headers,
                body: writer.bytes), by: deadline)
        // GitHub answers 404 and 422 for tokens that are already revoked or unknown.
        if [404, 422].contains(answer.status) { return }
        try checkRevoked(answer)
    }

    /// Checks the answer to a revocation: any 2xx without an error code counts as success.
    ///
    /// A refusal counts as success in two cases: the provider does not know the token; or it cannot revoke tokens of this
    /// type.
    private func checkRevoked(_ answer: ProviderAnswer) throws(ProviderFailure) {
        try answer.requireUsable(at: clock.now())
        let code = answer.object.flatMap { OAuthErrorParser.code(in: $0, isFailure: !answer.isSuccess) }
        if let code, ["invalid_token", "unsupported_token_type", "token_revoked", "invalid_auth"].contains(code) {
            return
        }
        if answer.isSuccess, code == nil { return }
        if let code { throw .rejected(OAuthError(status: answer.status, code: code)) }
        throw .unusable(detail: "revocation: \(answer.summary)")
    }
}

extension OAuthEngine {
    /// Ends the provider's session that the id_token names (RP-Initiated Logout 1.0 section 2).
    ///
    /// The call is a POST, which keeps the id_token out of access logs. Any 2xx or redirect counts as done. The result is
    /// false if the setting `end_session` is off, or if the endpoint or the id_token is missing.
    func endSession(
        _ tokens: TokenSet, client name: ClientName, by deadline: Duration
    ) async throws(ProviderFailure) -> Bool {
        let client = try client(name)
        guard client.wire.revocation.endSession, let idToken = tokens.idToken,
            let endpoint = try await metadata().endSession
        else { return false }
        let form = FormPairs.encode([
            (name: "id_token_hint", value: idToken.reveal()), ("client_id", client.settings.clientID),
        ])
        let answer = try await logOutCaller.send(
            ProviderRequest(
                method: "POST", url: endpoint, connection: .single,
                headers: [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "*/*")]
                    + client.wire.tokenRequest.headers,
                body: Array(form.utf8)), by: deadline)
        switch answer.status {
        case 200..<400: return true
        case 429, 500...:
            throw .retryable(
                status: answer.status, retryAfter: answer.retryAfter(at: clock.now()), detail: answer.summary)
        default:
            let code = answer.object.flatMap { OAuthErrorParser.code(in: $0, isFailure: true) }
            if let code { throw .rejected(OAuthError(status: answer.status, code: code)) }
            throw .unusable(detail: "end_session: \(answer.summary)")
        }
    }

    /// Returns the provider's log-out page for the user's browser (RP-Initiated Logout 1.0 section 2).
    ///
    /// Nil if the setting `end_session` is off or the endpoint is missing.
    ///
    /// The address leaves out the id_token, because addresses are stored in histories and logs. `logout_hint` is sent only if
    /// the provider documents this parameter. Its value comes from a claim of the id_token.
    func logOutPage(
        _ tokens: TokenSet, client name: ClientName, state: Secret
    ) async throws(ProviderFailure) -> Secret? {
        let client = try client(name)
        guard client.wire.revocation.endSession, let endpoint = try await metadata().endSession else { return nil }
        var pairs = [(name: "client_id", value: client.settings.clientID)]
        if let back = client.settings.postLogoutRedirectURI {
            pairs += [("post_logout_redirect_uri", back), ("state", state.reveal())]
        }
        if let claim = client.wire.logoutHintClaim, let idToken = tokens.idToken,
            let token = try? CompactToken(idToken.reveal(), allowed: client.wire.idToken.algorithms, types: ["jwt"]),
            let hint = token.claims[claim]?.string, (1...512).contains(hint.utf8.count)
        {
            pairs.append(("logout_hint", hint))
        }
        return endpoint.adding(pairs).map { Secret($0.text) }
    }
}
