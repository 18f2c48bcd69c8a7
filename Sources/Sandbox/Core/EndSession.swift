import Hummingbird

/// RP-initiated log-out: ends every grant of the session that the id_token hint names.
struct EndSession {
    let server: any AuthorizationServer
    let call: Call

    func answer() async throws -> Response {
        guard let parameters = call.method == .post ? call.form : call.queryPairs else {
            throw OAuthFailure.request("a form body is wanted")
        }
        // Without proof of who it is, a person has to confirm.
        guard let hint = parameters["id_token_hint"], !call.faults.has("end-session-confirm") else {
            return .page("Sign out?", "<p>Do you want to sign out?</p>")
        }
        try await end(hint, client: parameters["client_id"])
        guard let target = parameters["post_logout_redirect_uri"] else {
            return .page("Signed out", "<p>You are signed out.</p>")
        }
        var back = Pairs()
        back.add("state", parameters["state"])
        return .found(back.all.isEmpty ? target : back.added(to: target))
    }

    /// The hint has to be an id_token of this server, expired or not, and the client's own when it names itself.
    private func end(_ hint: String, client: String?) async throws {
        let keys = try await call.state.keys.published(server.name).map(\.jwk)
        guard let token = await Assertion.verify(hint, keys: keys), let sid = token.claims["sid"]?.text else {
            throw OAuthFailure.request("id_token_hint is no id_token of this server")
        }
        let audiences = token.claims["aud"]?.elements?.compactMap(\.text) ?? [token.claims["aud"]?.text ?? ""]
        if let client, !audiences.contains(client) { throw OAuthFailure.request("id_token_hint is another client's") }
        call.state.with { storage in
            for grant in storage.grants.values where grant.sid == sid && grant.provider == server.name {
                storage.revoke(grant: grant.id)
            }
        }
    }
}
