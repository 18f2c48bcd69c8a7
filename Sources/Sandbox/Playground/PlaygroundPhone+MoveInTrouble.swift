/// The troubles of a move: a lost answer, and a thief of the old refresh token.
extension PlaygroundPhone {
    /// Updates the app while the provider's answer is lost, at a provider that accepts the old refresh token for a moment.
    func loseMove() async {
        let control = SandboxControl(state: state)
        let before = state.with { $0.settings["oidc"] }
        control.set(settings: ["refresh_mode": "overlap"], of: "oidc")
        try? control.place(Fault(provider: "oidc", endpoint: "refresh", "drop-after", times: 1))
        let outcome = await moveIn()
        state.with { $0.settings["oidc"] = before }
        explain(
            outcome,
            "The broker asked the provider once more. This provider takes the old refresh token again for a moment. Where a "
                + "provider refuses the second call, the user signs in once (refresh_lost).")
    }

    /// Lets a thief copy the refresh token, updates the app, and then lets the thief use the copy.
    func stealRefreshToken() async {
        guard let app = screen.oldApp, let provider = screen.provider, let token = app.tokens["refresh_token"]?.text
        else { return }
        let outcome = await moveIn()
        guard screen.view == .session else { return explain(outcome, "") }
        var post = PlaygroundRequest.json("POST", "/v1/sessions", app.body(for: provider), jar: CookieJar())
        post.who = "thief"
        if let proof = proof(of: post).byAnotherKey() { post.headers.append(("DPoP", proof)) }
        let atBroker = try? await caller.send(post)
        var refresh = OldApp.refreshing(token)
        refresh.who = "thief"
        let atProvider = try? await caller.send(refresh)
        let isRefused = atBroker?.status == 409 && atProvider?.status == 400
        notice(
            isRefused ? "Nothing, and the thief gets nothing." : "Nothing, and the thief is in.",
            "The copied token got \(said(atBroker)) from the broker, and \(atProvider?.status ?? 0) "
                + "\(atProvider?.json["error"]?.text ?? "") from the provider. Until the update, the copy opened the account. "
                + "A provider with reuse detection also ends the session now.")
    }
}
