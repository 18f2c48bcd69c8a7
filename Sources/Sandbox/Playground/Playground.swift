/// The playground: a page, the phone on it, and the phone's conversation.
final class Playground: Sendable {
    let configuration: PlaygroundConfiguration
    let conversation = Conversation()
    let phone: PlaygroundPhone
    /// The guard, whose token distinguishes pages that were loaded since this start of the sandbox from older pages.
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
