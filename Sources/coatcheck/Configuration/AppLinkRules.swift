import Broker
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
                    guard !uri.path.hasPrefix("/callback/"), !paths.contains(where: { covers($0, uri.path) }) else {
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

    /// Returns whether a pattern covers a path: `*` stands for any characters, `?` for one; `NOT ` excludes nothing here.
    static func covers(_ pattern: String, _ path: String) -> Bool {
        matches(Array(pattern.utf8)[...], Array(path.utf8)[...])
    }

    /// Takes at most the product of both lengths: of several stars only the last is tried again.
    private static func matches(_ pattern: ArraySlice<UInt8>, _ text: ArraySlice<UInt8>) -> Bool {
        var (p, t) = (pattern.startIndex, text.startIndex)
        var retry: (pattern: Int, text: Int)?
        while t < text.endIndex {
            if p < pattern.endIndex, pattern[p] == UInt8(ascii: "*") {
                retry = (p + 1, t)
                p += 1
            } else if p < pattern.endIndex, pattern[p] == UInt8(ascii: "?") || pattern[p] == text[t] {
                p += 1
                t += 1
            } else if let last = retry {
                retry = (last.pattern, last.text + 1)
                p = last.pattern
                t = last.text + 1
            } else {
                return false
            }
        }
        return pattern[p...].allSatisfy { $0 == UInt8(ascii: "*") }
    }
}
