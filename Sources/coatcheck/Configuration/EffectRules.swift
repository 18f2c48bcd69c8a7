import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay

/// Warns of settings with surprising effects.
enum EffectRules {
    static func check(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        for provider in draft.providers {
            for client in provider.clients {
                checkToken(client, context)
                checkChildren(client, context)
                checkOrigins(client, of: provider, draft, context)
            }
        }
        for upstream in draft.upstreams {
            checkNeighbours(upstream, draft, context)
            checkPlain(upstream, context)
        }
        checkSites(draft, context)
        checkShells(draft, context)
    }

    /// Warns of clients whose apps get the provider's token, because outside the broker, such a token needs no key.
    private static func checkToken(_ client: ClientSection, _ context: ConfigContext) {
        let profile = client.settings.profile
        guard profile.binding.mode == .enforce, profile.handsOutAccessToken, profile.senderConstraint == .off else {
            return
        }
        context.report(
            "gives the app a token that needs no key, although the client has `binding: {mode: enforce}`: a copy of the token "
                + "opens the API from any device", path: "\(client.location.path).hand_out_access_token",
            severity: .warning)
    }

    /// Warns of children whose lifetime is longer than their parent's, because a child ends with its parent.
    private static func checkChildren(_ client: ClientSection, _ context: ConfigContext) {
        let profile = client.settings.profile
        let longest = profile.lifetimes.absolute
        for (kind, policy) in profile.children.sorted(by: { $0.key < $1.key }) {
            let path = "\(client.location.path).children.\(kind).absolute"
            guard policy.lifetimes.absolute > longest, context.lines.has(path) else { continue }
            context.report(
                "is longer than the \(DurationText.write(longest)) of the client's sessions, and children end with their sessions",
                path: path, severity: .warning)
        }
    }

    /// Warns of an origin for hand-over tickets if no backend can redeem tickets for it.
    ///
    /// Tickets for `public_url` need no backend.
    private static func checkOrigins(
        _ client: ClientSection, of provider: ProviderSection, _ draft: ConfigurationDraft, _ context: ConfigContext
    ) {
        let profile = client.settings.profile
        guard let web = profile.children[.web], let server = draft.server else { return }
        let path = "\(client.location.path).children.web.origins"
        for origin in web.origins.sorted() where origin != server.publicURL.origin {
            let redeems = draft.backends.contains { backend in
                backend.settings.may.contains(.handover)
                    && ProofAddress(origin).map(backend.settings.origins.contains) == true
                    && backend.settings.mayAsk(about: provider.name, profile.name)
            }
            guard !redeems else { continue }
            context.report(
                "holds `\(origin)`, but no backend can redeem tickets for it. A backend needs `handover` in `may`, this origin in "
                    + "`origins`, and this client's sessions in `allow`", path: path, severity: .warning)
        }
    }

    /// Warns of two upstreams at one address, if only one of them requires a step-up.
    ///
    /// A call that needs a step-up through one upstream must need a step-up through the other one too.
    private static func checkNeighbours(
        _ upstream: UpstreamSection, _ draft: ConfigurationDraft, _ context: ConfigContext
    ) {
        guard let settings = upstream.settings else { return }
        for (requirement, path) in zip(settings.require, upstream.requirePaths) {
            for other in draft.upstreams.compactMap(\.settings)
            where other.name != settings.name && settings.sharesSessions(with: other) {
                guard requirement.isReached(at: settings.base, through: other),
                    !other.require.contains(where: { requirement.overlaps($0, at: settings.base, and: other.base) })
                else { continue }
                context.report(
                    "is gone round through upstream `\(other.name)`, which is at the same address and allows such calls "
                        + "without it", path: path, severity: .warning)
            }
        }
    }

    /// Warns of an upstream inside the operator's own network that is called without TLS (decision 85).
    private static func checkPlain(_ upstream: UpstreamSection, _ context: ConfigContext) {
        guard let base = upstream.settings?.base, !base.isSecure, !base.isLoopback else { return }
        context.report(
            "is plain http inside your network: anyone who can read or redirect its traffic gets users' access tokens; if you "
                + "can, use https, or a mesh that encrypts between the pods", path: "\(upstream.path).base_url",
            severity: .warning)
    }

    /// Warns if apps in a web shell are configured but no client uses bearer tokens.
    private static func checkShells(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        guard let origin = draft.session.shellOrigins.first,
            !draft.providers.contains(where: { $0.clients.contains { $0.settings.profile.transport == .bearer } })
        else { return }
        context.report(
            "holds `\(origin)`, which needs a client with `transport: bearer`",
            path: "session.allowed_origins", severity: .warning)
    }

    /// Warns of an allowed origin whose pages cannot use the broker's cookie.
    ///
    /// Origin and broker must be one site, or the cookie must have `SameSite=None`.
    private static func checkSites(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        guard let server = draft.server, draft.session.sameSite != .none else { return }
        for origin in draft.session.allowedOrigins {
            guard let url = WebURL(origin), !Site.mayBeOne(url, server.publicURL) else { continue }
            context.report(
                "holds `\(origin)`, which is another site than `public_url`: browsers keep no cookie of the broker's for its "
                    + "pages (sign-ins end with `login_not_yours`); use one site for both, or `cookie: {same_site: none}`",
                path: "session.allowed_origins", severity: .warning)
        }
    }
}

/// Sites as browsers define them: the scheme and the registrable domain.
enum Site {
    /// Returns whether two addresses may belong to one site.
    ///
    /// Only the list of public suffixes could show that two hosts are one site, so true means "perhaps". Different schemes are
    /// different sites. Different hosts are different sites if their last two labels differ, or if one of them is an IP address
    /// or a name without a dot (`localhost`).
    static func mayBeOne(_ one: WebURL, _ other: WebURL) -> Bool {
        guard one.isSecure == other.isSecure else { return false }
        if one.host == other.host { return true }
        guard IPAddress(urlHost: one.host) == nil, IPAddress(urlHost: other.host) == nil else { return false }
        func domain(_ url: WebURL) -> [Substring]? {
            let labels = url.host.split(separator: ".")
            return labels.count < 2 ? nil : Array(labels.suffix(2))
        }
        guard let first = domain(one), let second = domain(other) else { return false }
        return first == second
    }
}
