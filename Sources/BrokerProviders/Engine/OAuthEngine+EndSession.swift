import Broker

extension OAuthEngine {
    /// Ends the session at the provider that the id_token came from (RP-Initiated Logout 1.0 section 2, by POST, so
    /// that the token stands in no access log).
    ///
    /// Any 2xx or redirect is done; false when there is nothing to call or to show.
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

    /// Returns the page to open in the user's browser (section 2 of the same document), without an id_token: an address
    /// stands in histories and logs.
    ///
    /// `logout_hint` only where the provider documents one: the value of a claim of the id_token.
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
