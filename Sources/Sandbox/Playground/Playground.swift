/// The playground: a page, the phone on it, and the phone's conversation.
final class Playground: Sendable {
    let configuration: PlaygroundConfiguration
    let conversation = Conversation()
    let phone: PlaygroundPhone
    /// The guard of the playground's routes.
    ///
    /// Its token is new at each start of the sandbox, so the guard refuses pages that were loaded earlier.
    let gate = PlaygroundGuard(token: Random.token())
    let recorder: ConversationRecorder

    init(configuration: PlaygroundConfiguration, state: SandboxState) {
        self.configuration = configuration
        phone = PlaygroundPhone(state: state, configuration: configuration, conversation: conversation)
        recorder = ConversationRecorder(conversation: conversation)
        // The values are the redirect URIs of deploy/sandbox.yaml.
        SandboxControl(state: state).set(
            settings: [
                "redirects": [
                    "ios": "my-app:/oauthRedirect", "android": "my-android-app:/oauthRedirect",
                    "web": "my-app:/oauthRedirect",
                ]
            ], of: "zephr")
    }
}
