import Broker

/// Checks flow C: a redirect URI on this host is the provider's hosted callback, and it knows where to go on.
enum HostedCallbackRules {
    static func check(_ providers: [ProviderSection], publicURL: WebURL, _ context: ConfigContext) {
        for provider in providers {
            let callback = "\(publicURL.text)/callback/\(provider.name)"
            for client in provider.clients {
                func report(_ key: String, _ message: String) {
                    context.report(message, path: "\(client.section.path).\(key)", line: client.section.redirectLine)
                }
                let own = client.redirectURIs.filter { WebURL($0.text)?.origin == publicURL.origin && $0.path.hasPrefix("/callback/") }
                let isHosted = own.contains { $0.text == callback }
                if own.contains(where: { $0.text != callback }) {
                    report("redirect_uris", "holds a callback of this host that is not this provider's: `/callback/\(provider.name)`")
                }
                if isHosted, client.hostedCallbackTo == nil {
                    report("redirect_uris", "holds the hosted callback, which needs `hosted_callback_to`: where the app is")
                }
                if !isHosted, client.hostedCallbackTo != nil {
                    report("hosted_callback_to", "needs the hosted callback among `redirect_uris`: `/callback/\(provider.name)` at `public_url`")
                }
                if let target = client.hostedCallbackTo, WebURL(target)?.origin == publicURL.origin,
                    WebURL(target)?.path.hasPrefix("/callback/") == true || WebURL(target)?.path.hasPrefix("/v1/") == true
                {
                    report("hosted_callback_to", "leads back to the broker")
                }
                if isHosted, client.login == .app {
                    report("login", "cannot be `app` with a hosted callback: its logins are started by the broker")
                }
            }
        }
    }
}
