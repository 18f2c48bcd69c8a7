import Broker
import BrokerProviders

/// Checks the settings of a provider and of its clients against each other.
enum ProviderRules {
    static func check(_ provider: ProviderSection, _ context: ConfigContext) {
        for client in provider.clients {
            let profile = client.settings.profile
            func warn(_ key: String, _ message: String) {
                context.report(
                    message, path: "\(client.location.path).\(key)", line: client.location.line, severity: .warning)
            }
            if profile.nativeCode, !profile.nonce, provider.kind == .oidc {
                warn("nonce", "is off for native codes, so the id_token is not tied to the login")
            }
            if profile.login != .broker, profile.pkce != .unsupported, provider.kind != .zephr {
                warn(
                    "login",
                    "lets the app start logins, so only the provider checks that the app's verifier fits its challenge")
            }
            if profile.senderConstraint != .off { checkBound(client, of: provider, context) }
            checkConnection(client, of: provider, context)
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

extension ProviderRules {
    /// Reports contradictions with tokens that are bound to the broker's key or certificate.
    private static func checkBound(_ client: ClientSection, of provider: ProviderSection, _ context: ConfigContext) {
        func report(_ key: String, _ message: String) {
            context.report(message, path: "\(client.location.path).\(key)", line: client.location.line)
        }
        if provider.kind != .oidc, provider.kind != .oauth2 {
            report("sender_constrained", "is for the kinds `oidc` and `oauth2`")
        }
        let constraint = client.settings.profile.senderConstraint
        if client.settings.wire.revocation.style == .bearerPost {
            report(
                "revocation",
                "has `style: bearer_post`, which sends the access token alone and is useless with "
                    + "`sender_constrained: \(constraint.rawValue)`")
        }
        if client.settings.profile.handsOutAccessToken, client.settings.wire.profile == nil {
            let what = constraint == .mtls ? "certificate" : "key"
            report(
                "hand_out_access_token",
                "contradicts `sender_constrained: \(constraint.rawValue)`: the token is useless without its \(what), "
                    + "which never leaves the broker")
        }
    }

    /// Reports a certificate or trust roots for a kind that cannot use them.
    private static func checkConnection(
        _ client: ClientSection, of provider: ProviderSection, _ context: ConfigContext
    ) {
        let connection = client.settings.wire.connection
        guard provider.kind != .oidc, provider.kind != .oauth2, connection.identity != nil || connection.trust != nil
        else { return }
        context.report(
            "is for the kinds `oidc` and `oauth2`", path: "\(client.location.path).tls", line: client.location.line)
    }
}

/// Reports settings for standards that the broker does not support or configures elsewhere: DPoP and JARM.
enum NotOffered {
    private static let words = [
        "jwt": "signed answers (JARM)", "query.jwt": "signed answers (JARM)", "fragment.jwt": "signed answers (JARM)",
        "form_post.jwt": "signed answers (JARM)",
    ]

    static func check(_ section: ConfigSection) {
        for key in ["response_mode"] where section.has(key) {
            guard let scalar = section.scalar(key), let name = words[scalar.text.lowercased()] else { continue }
            section.report(key, "asks for \(name), which is not offered")
        }
    }

    /// Reports words of a list that name DPoP or JARM.
    static func check(_ section: ConfigSection, list key: String) {
        for scalar in section.scalars(key) {
            if scalar.text.lowercased() == "dpop" {
                section.report(key, "asks for DPoP (RFC 9449), which is `sender_constrained: dpop`")
            }
            guard let name = words[scalar.text.lowercased()] else { continue }
            section.report(key, "asks for \(name), which is not offered")
        }
    }
}
