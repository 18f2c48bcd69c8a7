import Broker
import BrokerProviders

/// Checks the hosted callback (flow C): a redirect URI on the broker's host must be the provider's callback address, and its
/// client must name the address of the app.
enum HostedCallbackRules {
    static func check(_ providers: [ProviderSection], publicURL: WebURL, _ context: ConfigContext) {
        for provider in providers {
            for client in provider.clients { check(client, of: provider, publicURL: publicURL, context) }
        }
    }

    private static func check(
        _ client: ClientSection, of provider: ProviderSection, publicURL: WebURL, _ context: ConfigContext
    ) {
        let profile = client.settings.profile
        let route = "/callback/\(provider.name)"
        func report(_ key: String, _ message: String) {
            context.report(message, path: "\(client.location.path).\(key)")
        }
        let own = profile.redirectURIs.filter {
            WebURL($0.normalizedBase)?.origin == publicURL.origin && $0.path.hasPrefix("/callback/")
        }
        let isHosted = own.contains { RedirectURI.areSame($0.text, publicURL.text + route) }
        if own.contains(where: { !RedirectURI.areSame($0.text, publicURL.text + route) }) {
            report("redirect_uris", "holds a callback of this host that is not this provider's: `\(route)`")
        }
        if isHosted, profile.hostedCallbackTo == nil {
            report(
                "redirect_uris", "holds the hosted callback, which needs `hosted_callback_to` with the app's address")
        }
        if isHosted, profile.login == .app {
            report("login", "cannot be `app` with a hosted callback: its logins are started by the broker")
        }
        guard let target = profile.hostedCallbackTo else { return }
        if !isHosted {
            report("hosted_callback_to", "needs the hosted callback among `redirect_uris`: `\(route)` at `public_url`")
        }
        if let url = WebURL(target), url.origin == publicURL.origin,
            url.path.hasPrefix("/callback/") || url.path.hasPrefix("/v1/")
        {
            report("hosted_callback_to", "leads back to the broker")
        }
    }
}
