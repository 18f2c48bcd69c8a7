import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay

/// Checks rules that span several sections: redirect URIs, references and addresses.
enum ConfigurationRules {
    /// Reports every contradiction between sections.
    static func check(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        if draft.providers.isEmpty, !context.problems.contains(where: { $0.path.hasPrefix("providers") }) {
            context.report("needs at least one provider", path: "providers", line: nil)
        }
        if let server = draft.server {
            checkListeners(server, draft, context)
            if !server.publicURL.isLoopback { context.warnOfInlineSecrets() }
            HostedCallbackRules.check(draft.providers, publicURL: server.publicURL, context)
            AppLinkRules.check(draft, publicURL: server.publicURL, context)
        }
        RedirectRules.check(draft.providers, context)
        for provider in draft.providers { ProviderRules.check(provider, context) }
        checkRegistrations(draft.providers, context)
        checkSigningKeys(draft.providers, context)
        checkReferences(draft, context)
        checkEvidence(draft, context)
        ChildrenRules.check(draft, context)
        MoveInRules.check(draft, context)
        StepUpRules.check(draft, context)
        TargetRules.check(draft, context)
        checkForwardedTokens(draft, context)
        EffectRules.check(draft, context)
    }

    /// Reports a backend that receives tokens that are bound to the broker's own key or certificate, because only the broker can
    /// use such tokens.
    private static func checkForwardedTokens(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        for backend in draft.backends where backend.settings.forwardAccessToken {
            for provider in draft.providers {
                for client in provider.clients.map(\.settings.profile)
                where client.senderConstraint != .off && backend.settings.mayAsk(about: provider.name, client.name) {
                    context.report(
                        "reaches client `\(client.name)` of `\(provider.name)`, whose access tokens are bound to "
                            + "a key that only the broker has; list other clients in `allow`",
                        path: "\(backend.path).forward_access_token",
                        line: backend.line)
                }
            }
        }
    }

    /// Reports a forward-auth backend without `original_request` for a client that needs a proof for every request.
    ///
    /// Such a proof cannot be checked without the original request.
    private static func checkEvidence(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        for backend in draft.backends where backend.settings.may.contains(.forwardAuth) {
            guard !backend.settings.originalRequest else { continue }
            for provider in draft.providers {
                for client in provider.clients.map(\.settings.profile)
                where client.binding.mode == .enforce && client.binding.evidence == .proof
                    && backend.settings.mayAsk(about: provider.name, client.name)
                {
                    context.report(
                        "cannot see the proofs of client `\(client.name)` of `\(provider.name)`, which has "
                            + "`binding: {evidence: proof}`: let the proxy send the original request and write "
                            + "`original_request: true`, or leave the client to passes", path: backend.path,
                        line: backend.line)
                }
            }
        }
    }

    private static func checkListeners(
        _ server: ServerSettings, _ draft: ConfigurationDraft, _ context: ConfigContext
    ) {
        if server.listen == draft.management.listen, server.listen.port != 0 {
            context.report("is the public listener's address too", path: "management.listen", line: nil)
        }
        if let own = server.backendListen, own.port != 0 {
            if own == server.listen {
                context.report("is the public listener's address too", path: "server.backend_listen", line: nil)
            }
            if own == draft.management.listen {
                context.report("is the management listener's address too", path: "server.backend_listen", line: nil)
            }
        }
        for backend in draft.backends where !backend.settings.peers.isEmpty && server.backendListen == nil {
            context.report(
                "needs a listener that only backends reach, because on the public one all requests come from the proxy's "
                    + "address: write `server: {backend_listen: 127.0.0.1:8081}` and let the backend ask there, or give "
                    + "it a credential (`sha256`) instead of `peers`", path: "\(backend.path).peers", line: backend.line
            )
        }
        let hasNoProxy = server.trustedProxies.isEmpty && !context.isFaulty("server.trusted_proxies")
        if server.publicURL.isSecure, server.tls == nil, hasNoProxy {
            context.report(
                "is empty, and `public_url` is https: a proxy in front ends TLS, and all its users share its address and "
                    + "its limits (`limits: {logins_per_minute}` of them together); list the proxy, such as `[127.0.0.1]`",
                path: "server.trusted_proxies", line: nil, severity: .warning)
        } else if !draft.backends.isEmpty, hasNoProxy {
            context.report(
                "is empty, and there are backends. The users of a proxy that asks for them, or is in front, share "
                    + "its address and its limits; list the proxy", path: "server.trusted_proxies", line: nil,
                severity: .warning)
        }
        if server.backendListen != nil, draft.backends.isEmpty {
            context.report(
                "is a listener for backends, but `backends` is empty", path: "server.backend_listen", line: nil,
                severity: .warning)
        }
    }

    /// Reports two providers whose clients have the same service and `client_id`, because each provider could redeem the
    /// other's codes (SEC-112).
    private static func checkRegistrations(_ providers: [ProviderSection], _ context: ConfigContext) {
        var owners: [String: ProviderName] = [:]
        for provider in providers {
            let settings = provider.settings
            let service = settings.issuer ?? settings.endpoints.token?.text ?? settings.service.kind.rawValue
            for client in provider.clients where !client.settings.clientID.isEmpty {
                let key = "\(service) \(client.settings.clientID)"
                if let owner = owners[key], owner != provider.name {
                    context.report(
                        "has the same service and `client_id` as a client of `\(owner)`: each provider needs a "
                            + "registration of its own", path: client.location.path, line: client.location.line)
                }
                owners[key] = owners[key] ?? provider.name
            }
        }
    }

    /// Reports providers that share a signing key, unless each names its own issuer as the only audience.
    ///
    /// Without this limit on the audience, an assertion for one provider could be used at another one (audience injection).
    private static func checkSigningKeys(_ providers: [ProviderSection], _ context: ConfigContext) {
        var uses: [String: [(provider: ProviderSection, client: ClientSection)]] = [:]
        for provider in providers {
            for client in provider.clients {
                guard case .privateKeyJWT(let key) = client.settings.authentication else { continue }
                uses[key.pem.reveal(), default: []].append((provider, client))
            }
        }
        for users in uses.values where Set(users.map(\.provider.name)).count > 1 {
            for user in users where user.client.settings.wire.assertion.audience != .issuer {
                context.report(
                    "signs with a key that another provider's client has too: give each provider its own, or all of them "
                        + "`assertion: {audience: issuer}`", path: "\(user.client.location.path).private_key",
                    line: user.client.location.line)
            }
        }
    }

    private static func checkReferences(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        let providers = Dictionary(draft.providers.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        /// Returns the fault of a reference to a provider or client; nil if there is none.
        ///
        /// If the section of the provider is unreadable, the result is nil, because that fault was reported already.
        func fault(_ provider: ProviderName, _ clients: Set<ClientName>?) -> String? {
            guard draft.providerNames.contains(provider.text) else {
                return "names a provider that is not configured"
                    + Spelling.hint(for: provider.text, among: draft.providerNames)
            }
            guard let known = providers[provider] else { return nil }
            let unknown = clients?.sorted { $0.text < $1.text }.first { !known.clientNames.contains($0.text) }
            guard let unknown else { return nil }
            return "names a client that `\(provider)` does not have"
                + Spelling.hint(for: unknown.text, among: known.clientNames)
        }
        for upstream in draft.upstreams {
            guard let settings = upstream.settings else { continue }
            UpstreamTLSRules.check(upstream, providers[settings.provider], context)
            if let fault = fault(settings.provider, settings.clients) {
                let key = draft.providerNames.contains(settings.provider.text) ? "clients" : "provider"
                context.report(fault, path: "\(upstream.path).\(key)", line: upstream.line)
            } else if providers[settings.provider] == nil {
                continue
            } else if upstream.employees, providers[settings.provider]?.kind != .clover {
                context.report(
                    "is for upstreams of kind `clover`", path: "\(upstream.path).employees", line: upstream.line)
            } else if (settings.credential == .zephrCookie) != (providers[settings.provider]?.kind == .zephr) {
                context.report(
                    "sessions of kind `zephr`, and only they, need `credential: zephr_cookie`",
                    path: "\(upstream.path).credential", line: upstream.line)
            }
        }
        for (index, backend) in draft.backends.enumerated() {
            let settings = backend.settings
            for (scope, path) in zip(settings.allow ?? [], backend.allowPaths) {
                guard let fault = fault(scope.provider, scope.clients) else { continue }
                context.report(fault, path: path)
            }
            for other in draft.backends.prefix(index)
            where settings.digest != nil && other.settings.digest == settings.digest {
                context.report(
                    "has the same credential as `\(other.settings.name)`", path: "\(backend.path).sha256",
                    line: backend.line)
            }
        }
    }
}

/// Checks the TLS settings of an upstream.
enum UpstreamTLSRules {
    static func check(_ upstream: UpstreamSection, _ provider: ProviderSection?, _ context: ConfigContext) {
        guard let settings = upstream.settings else { return }
        let connection = upstream.connection
        func report(_ message: String) {
            context.report(message, path: "\(upstream.path).tls", line: upstream.line)
        }
        if connection.identity != nil || connection.trust != nil, !settings.base.isSecure {
            report("needs an https `base_url`")
        }
        // The upstream accepts such a token only on a connection that shows the client's certificate.
        let bound = (provider?.clients.map(\.settings.profile) ?? []).filter {
            $0.senderConstraint == .mtls && settings.clients?.contains($0.name) != false
        }
        if !settings.base.isSecure, let client = bound.first {
            context.report(
                "has to be https: the tokens of client `\(client.name)`, which has `sender_constrained: mtls`, go out only on "
                    + "connections that show its certificate", path: "\(upstream.path).base_url", line: upstream.line)
        }
        guard connection.identity != nil else { return }
        for client in bound {
            report(
                "has a certificate, and client `\(client.name)` has `sender_constrained: mtls`: its tokens are good only "
                    + "with the client's own; leave `certificate` and `key` out, or name other `clients`")
        }
    }
}

/// Compares the app association files with the redirect URIs that open the app.
enum AppLinkRules {
    /// Warns of https redirect URIs on the broker's host that iOS would open in the browser instead of the app.
    static func check(_ draft: ConfigurationDraft, publicURL: WebURL, _ context: ConfigContext) {
        guard let ios = draft.appLinks.ios else { return }
        for provider in draft.providers {
            for client in provider.clients {
                // Leave out the hosted callback (flow C), because the browser opens this URL, and not the app.
                let own = client.settings.profile.redirectURIs.filter {
                    WebURL($0.normalizedBase)?.origin == publicURL.origin && !$0.path.hasPrefix("/callback/")
                }
                func warn(_ message: String) {
                    context.report(
                        message, path: "\(client.location.path).redirect_uris", line: client.location.redirectLine,
                        severity: .warning)
                }
                for uri in own where !ios.paths.contains(where: { PathPattern.covers($0, uri.path) }) {
                    warn("holds `\(uri.path)` on this host, which no path of `app_links.ios.paths` covers")
                }
                if let uri = own.first, !ios.webcredentials {
                    warn(
                        "holds `\(uri.path)` on this host: from iOS 17.4 on `ASWebAuthenticationSession` returns such a "
                            + "callback only with `app_links: {ios: {webcredentials: true}}`, which also lets the app fill in "
                            + "passwords that are kept for this host")
                }
            }
        }
    }
}
