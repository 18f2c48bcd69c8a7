import Broker

/// Checks a provider's settings against its clients'.
enum ProviderRules {
    static func check(_ provider: ProviderSection, _ context: ConfigContext) {
        for client in provider.clients {
            func report(_ key: String, _ message: String) {
                context.report(message, path: "\(client.section.path).\(key)", line: client.section.line)
            }
            let wire = client.wire?.over(provider.wire) ?? provider.wire
            if client.auth == .privateKeyJWT, wire.privateKey == nil {
                report("auth", "needs `private_key`, on the client or the provider")
            }
            if provider.preset == .apple, wire.apple == nil, client.secret == nil {
                report("apple", "is needed: `team_id`, `key_id` and `key`")
            }
            if client.nonce == .off, client.nativeCode {
                context.report(
                    "is `off` for native codes: nothing then ties the id_token to this login", path: "\(client.section.path).nonce",
                    line: client.section.line, weight: .warning)
            }
            if client.login != .broker, client.pkce != .unsupported, provider.kind != .zephr {
                context.report(
                    "lets the app start logins: what ties its verifier to its challenge is the provider's check",
                    path: "\(client.section.path).login", line: client.section.line, weight: .warning)
            }
            if let clover = provider.clover {
                for uri in client.redirectURIs where WebURL(uri.text).map(clover.covers) != true {
                    report("redirect_uris", "holds a redirect URI outside `site_url`, which Clover refuses")
                }
            }
        }
    }
}
