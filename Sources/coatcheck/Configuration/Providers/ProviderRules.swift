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

/// Checks that each redirect URI belongs to one client of one provider (SEC-09), and checks its query and scheme.
///
/// If two providers shared a redirect URI, an answer of one provider could be mistaken for an answer of the other.
enum RedirectRules {
    /// The parameters in answers of OAuth, OpenID, Zephr, Clover and Apple.
    ///
    /// The query of a registered redirect URI must not use these names.
    private static let answerNames: Set<String> = [
        "code", "state", "iss", "error", "error_description", "error_uri", "error_code", "error_message",
        "error_reason", "denied", "scope", "session_state", "id_token", "access_token", "refresh_token", "token_type",
        "expires_in", "response", "status", "session_id", "state_key", "identifier", "message", "action",
        "tracking_id", "merchant_id", "employee_id", "client_id", "user", "handoff", "login_id", "authuser", "hd",
        "prompt",
    ]

    static func check(_ providers: [ProviderSection], _ context: ConfigContext) {
        var owners: [String: (provider: ProviderName, client: ClientName)] = [:]
        for provider in providers {
            for client in provider.clients {
                let profile = client.settings.profile
                func report(_ message: String, _ severity: ConfigProblem.Severity = .error) {
                    context.report(
                        message, path: "\(client.location.path).redirect_uris", line: client.location.redirectLine,
                        severity: severity)
                }
                for uri in profile.redirectURIs {
                    if let owner = owners[uri.registration], owner.provider != provider.name {
                        report("holds a redirect URI that `\(owner.provider)` has too: each provider needs its own")
                    } else if let owner = owners[uri.registration], owner.client != profile.name {
                        report("holds a redirect URI that client `\(owner.client)` has too: each client needs its own")
                    }
                    owners[uri.registration] = owners[uri.registration] ?? (provider.name, profile.name)
                    let taken = Self.answerNames.union(profile.callbackParameters)
                    if let query = uri.query, let pairs = try? FormPairs(parsing: query),
                        let name = pairs.pairs.map(\.name).first(where: taken.contains)
                    {
                        report("holds a redirect URI whose query names `\(name)`, which is a name of the answer's")
                    }
                    if uri.scheme != "https", uri.scheme != "http", !uri.scheme.contains("."), provider.kind != .clever
                    {
                        report(
                            "holds a scheme without a dot, which another app may claim: take one in reverse-domain form, "
                                + "or an https link", .warning)
                    }
                }
            }
        }
    }
}
