import ArgumentParser

/// The command line of the sandbox.
@main
struct SandboxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "coatcheck-sandbox",
        abstract: "Plays OAuth, OpenID and Zephr providers on loopback, well or badly.",
        discussion: """
            Providers: /oidc /oauth2 /github /google /slack /facebook /linkedin/oauth /microsoft /apple /clever /clover-web /clover-api
            /cloudentity/example/demo /demo /zephr /zephr/zephr/oauth2, and /api, an upstream for relays.
            Any client id is a public client; these have secrets: web/web-secret (Basic; at google, github, slack,
            microsoft and clover also in the body), web-post/web-post-secret (in the body), web-jwt (private_key_jwt
            with the key at /_sandbox/client-key.pem); at clever web-0001/clever-secret and ios-0001 (blank).
            An authorization URL with &sandbox_user=ana is allowed at once, with &sandbox_deny=1 refused.
            Control API under /_sandbox/: docs/apps/sandbox.md.
            """,
        subcommands: [Serve.self, Proof.self], defaultSubcommand: Serve.self)
}
