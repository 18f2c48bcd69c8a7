import Broker

/// Checks what one section cannot see by itself: redirect URIs, references, and addresses across the whole file.
enum ConfigurationRules {
    /// Reports every contradiction between sections.
    static func check(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        if draft.providers.isEmpty, !context.problems.contains(where: { $0.path.hasPrefix("providers") }) {
            context.report("needs at least one provider", path: "providers", line: nil)
        }
        if let server = draft.server {
            if server.listen == draft.management.listen, server.listen.port != 0 {
                context.report("is the public listener's address too", path: "management.listen", line: nil)
            }
            if !server.publicURL.isLoopback { context.warnOfInlineSecrets() }
            HostedCallbackRules.check(draft.providers, publicURL: server.publicURL, context)
        }
        RedirectRules.check(draft.providers, context)
        for provider in draft.providers { ProviderRules.check(provider, context) }
        checkRegistrations(draft.providers, context)
        checkReferences(draft, context)
    }

    /// No two providers use one registration: a code of one would be redeemable through the other (SEC-112).
    private static func checkRegistrations(_ providers: [ProviderSection], _ context: ConfigContext) {
        var owners: [String: ProviderSection] = [:]
        for provider in providers {
            let service = provider.issuer ?? provider.endpoints.token ?? provider.preset?.rawValue ?? provider.kind.rawValue
            for client in provider.clients where !client.clientID.isEmpty {
                let key = "\(service) \(client.clientID)"
                if let owner = owners[key], owner.name != provider.name {
                    context.report(
                        "has the same service and `client_id` as a client of `\(owner.name)`: each provider needs a "
                            + "registration of its own", path: client.section.path, line: client.section.line)
                }
                owners[key] = owners[key] ?? provider
            }
        }
    }

    private static func checkReferences(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        let providers = Dictionary(draft.providers.map { ($0.name.text, $0) }, uniquingKeysWith: { first, _ in first })
        for upstream in draft.upstreams {
            for name in upstream.providers {
                guard let provider = providers[name] else {
                    context.report("names a provider that is not configured", path: "\(upstream.path).provider", line: upstream.line)
                    continue
                }
                if (upstream.credential == .zephrCookie) != (provider.kind == .zephr), upstream.credential != UpstreamSection.Credential.none {
                    context.report(
                        "sessions of kind `zephr`, and only they, need `credential: zephr_cookie`",
                        path: "\(upstream.path).credential", line: upstream.line)
                }
            }
        }
        for backend in draft.backends {
            for scope in backend.allow ?? [] {
                let provider = providers[scope.provider]
                let unknown = (scope.clients ?? []).filter { name in provider?.clients.contains { $0.name.text == name } != true }
                if provider == nil || !unknown.isEmpty {
                    context.report("names a provider or client that is not configured", path: "\(backend.path).allow", line: backend.line)
                }
            }
        }
        for (index, backend) in draft.backends.enumerated() {
            for other in draft.backends.prefix(index) where backend.sha256 != nil && other.sha256 == backend.sha256 {
                context.report("has the same credential as `\(other.name)`", path: "\(backend.path).sha256", line: backend.line)
            }
        }
    }
}
