import Broker
import BrokerHTTP
import BrokerProviders

/// Compares the paths of the app association files with the redirect URIs that are meant to open the app.
enum AppLinkRules {
    /// Warns of an https redirect URI on this host that no path of `app_links.ios` covers: iOS would open it in the browser.
    static func check(_ draft: ConfigurationDraft, publicURL: WebURL, _ context: ConfigContext) {
        guard let paths = draft.appLinks.ios?.paths else { return }
        for provider in draft.providers {
            for client in provider.clients {
                for uri in client.settings.profile.redirectURIs where WebURL(uri.base)?.origin == publicURL.origin {
                    // The broker's own callback is for the browser.
                    guard !uri.path.hasPrefix("/callback/"),
                        !paths.contains(where: { PathPattern.covers($0, uri.path) })
                    else {
                        continue
                    }
                    context.report(
                        "holds `\(uri.path)` on this host, which no path of `app_links.ios.paths` covers",
                        path: "\(client.location.path).redirect_uris", line: client.location.redirectLine,
                        severity: .warning)
                }
            }
        }
    }
}
