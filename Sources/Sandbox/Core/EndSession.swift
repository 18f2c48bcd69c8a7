import Hummingbird

/// RP-initiated log-out.
///
/// The request ends the session that the id_token hint names or, if a person confirms it, the browser's session.
struct EndSession {
    let server: any AuthorizationServer
    let call: Call

    func answer() async throws -> Response {
        guard let parameters = call.method == .post ? call.form : call.queryPairs else {
            throw OAuthFailure.request("a form body is wanted")
        }
        if let hint = parameters["id_token_hint"], !call.faults.has("end-session-confirm") {
            try await end(hint, client: parameters["client_id"])
            return try goodbye(parameters)
        }
        // A request without a hint may come from another site, so a person has to confirm it. Some servers need no
        // confirmation, because the browser's cookie is enough for them (`end_session: cookie`).
        let browser = BrowserSession(server: server, call: call)
        let isConfirmed = call.method == .post && parameters["confirm"] == "yes"
        if isConfirmed || call.settings.text("end_session") == "cookie" {
            _ = browser.end()
            return try goodbye(parameters)
        }
        return page(parameters)
    }

    private func page(_ parameters: Pairs) -> Response {
        let action = call.path.htmlEscaped
        let kept = ["client_id", "post_logout_redirect_uri", "state"].compactMap { name in
            parameters[name].map { "<input type=\"hidden\" name=\"\(name)\" value=\"\($0.htmlEscaped)\">" }
        }
        return .page(
            "Sign out?",
            """
            <p>Do you want to sign out?</p><form method="post" action="\(action)">\(kept.joined())
            <p><button name="confirm" value="yes">Sign out</button></p></form>
            """)
    }

    /// Redirects to the client's registered address, or shows a page.
    private func goodbye(_ parameters: Pairs) throws -> Response {
        guard let target = parameters["post_logout_redirect_uri"] else {
            return .page("Signed out", "<p>You are signed out.</p>")
        }
        let client = parameters["client_id"].flatMap { call.state.client($0, at: server.name) }
        let registered = client?.json["post_logout_redirect_uris"]?.elements?.compactMap(\.text) ?? []
        guard registered.isEmpty || registered.contains(target) else {
            throw OAuthFailure.request("post_logout_redirect_uri is not registered")
        }
        var back = Pairs()
        back.add("state", parameters["state"])
        return .found(back.all.isEmpty ? target : back.added(to: target))
    }

    /// Ends the session that the hint names; the hint must be an id_token of this server, but may have expired.
    ///
    /// If the request names a client, the hint must have been issued to that client.
    private func end(_ hint: String, client: String?) async throws {
        let keys = try await call.state.keys.published(server.name).map(\.jwk)
        guard let token = await Assertion.verify(hint, keys: keys), let sid = token.claims["sid"]?.text else {
            throw OAuthFailure.request("id_token_hint is no id_token of this server")
        }
        let audiences = token.claims["aud"]?.elements?.compactMap(\.text) ?? [token.claims["aud"]?.text ?? ""]
        if let client, !audiences.contains(client) { throw OAuthFailure.request("id_token_hint is another client's") }
        call.state.with { $0.endSignOn(sid: sid, at: server.name) }
    }
}
