/// The sign-in of the app before its update, directly at the provider.
extension PlaygroundPhone {
    /// Shows the provider's page, as the app's own SDK does.
    func signInToOldApp() async {
        guard let provider = PlaygroundProvider.all.first(where: \.isBound) else { return }
        begin(provider)
        jar.clear()
        let app = OldApp()
        screen.oldApp = app
        conversation.note("An older version of the app: its own SDK signs in at the provider.")
        await visit(
            state.baseURL + app.authorization, curl: CurlLine(base: "SANDBOX", target: app.authorization))
    }

    /// Exchanges the callback's code for tokens, which stay on the phone.
    func redeem(_ callback: String) async {
        guard let code = screen.oldApp?.code(in: callback) else {
            return failed(nil, "The sign-in was refused (access_denied).")
        }
        guard let request = screen.oldApp?.redeeming(code), let answer = try? await caller.send(request),
            answer.status == 200
        else { return failed(nil, PhoneMessages.silentProvider) }
        screen.oldApp?.tokens = answer.json
        screen.view = .oldApp
    }
}
