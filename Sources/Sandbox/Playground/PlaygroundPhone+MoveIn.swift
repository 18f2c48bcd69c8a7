/// The update of an older app, which moves its signed-in user to the broker.
extension PlaygroundPhone {
    /// Updates the app, and explains the move.
    func updateApp() async {
        notice("", "")
        await explain(
            moveIn(),
            "The app posted its refresh token once. The broker refreshed the tokens at the provider, and keeps the new ones. "
                + "The refresh token has left the phone. The session belongs to the phone's key.")
    }

    /// Posts the old tokens to the broker, and does what the answer demands.
    func moveIn() async -> Outcome {
        guard let app = screen.oldApp, let provider = screen.provider else { return Outcome() }
        screen.message = ""
        // Each repetition sends the same body, so that the broker knows its starter again.
        let mark = app.mark == .null ? app.body(for: provider) : app.mark
        screen.oldApp?.mark = mark
        conversation.note("The app stores its mark: the body of the post, with a new login_token.")
        var request = PlaygroundRequest.json("POST", "/v1/sessions", mark, jar: jar)
        request.isProved = true
        let outcome = await patiently(request)
        switch MoveInStep(after: outcome.answer) {
        case .moved:
            settle(outcome)
            conversation.note("The app erases the old tokens, and then the mark.", tone: .good)
        case .signIn: failed(outcome.answer, "Please sign in again.")
        case .asBefore:
            screen.oldApp?.mark = .null
            screen.message = "The app goes on as before, and tries again later."
        case .later: screen.message = "The app repeats its post later."
        }
        return outcome
    }

    /// Shows what the user has noticed of a move; `story` explains a move that succeeded.
    func explain(_ outcome: Outcome, _ story: String) {
        switch screen.view {
        case .session: notice(outcome.waited < .seconds(1) ? "Nothing." : Self.pause(outcome.waited), story)
        case .oldApp:
            notice(
                "Nothing: the tokens are still on the phone.",
                "The broker's answer to the post was \(said(outcome.answer)). \(screen.message)")
        default: notice("“\(screen.message)”", "The broker's answer to the post was \(said(outcome.answer)).")
        }
    }
}
