import Broker
import BrokerProviders

/// Checks a provider's settings against its clients'.
enum ProviderRules {
    static func check(_ provider: ProviderSection, _ context: ConfigContext) {
        for client in provider.clients {
            let profile = client.settings.profile
            func warn(_ key: String, _ message: String) {
                context.report(
                    message, path: "\(client.location.path).\(key)", line: client.location.line, severity: .warning)
            }
            if profile.nativeCode, !profile.nonce, provider.kind == .oidc {
                warn("nonce", "is off for native codes: nothing then ties the id_token to this login")
            }
            if profile.login != .broker, profile.pkce != .unsupported, provider.kind != .zephr {
                warn(
                    "login",
                    "lets the app start logins: what ties its verifier to its challenge is the provider's check")
            }
            if client.settings.wire.responseMode == .formPost, !profile.nativeCode {
                for uri in profile.redirectURIs where uri.scheme != "https" && uri.scheme != "http" {
                    context.report(
                        "holds a scheme of the app's own, which a browser cannot post a form to (`response_mode: form_post`)",
                        path: "\(client.location.path).redirect_uris", line: client.location.redirectLine)
                }
            }
            guard let site = provider.cloverSite else { continue }
            for uri in profile.redirectURIs where WebURL(uri.base).map(site.covers) != true {
                context.report(
                    "holds a redirect URI outside `site_url`, which Clover refuses",
                    path: "\(client.location.path).redirect_uris", line: client.location.redirectLine)
            }
        }
    }
}
