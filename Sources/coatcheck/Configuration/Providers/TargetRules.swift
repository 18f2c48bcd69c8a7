import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay

/// Checks targets against the providers that would have to issue the tokens.
enum TargetRules {
    /// The largest number of target tokens that the store keeps for one session.
    private static let mostKept = 8

    static func check(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        for upstream in draft.upstreams {
            guard let settings = upstream.settings, let target = settings.token,
                let provider = draft.providers.first(where: { $0.name == settings.provider })
            else { continue }
            checkUpstream(upstream, target, provider, context)
        }
        for backend in draft.backends where !backend.settings.tokens.isEmpty { checkBackend(backend, draft, context) }
        let targets = ConfiguredTargets(draft.upstreams, draft.backends)
        for provider in draft.providers where provider.kind.takesTargets { checkProvider(provider, targets, context) }
    }

    private static func checkUpstream(
        _ upstream: UpstreamSection, _ target: TokenTarget, _ provider: ProviderSection, _ context: ConfigContext
    ) {
        let path = "\(upstream.path).token"
        guard provider.kind.takesTargets else {
            context.report(
                "is for the kinds `oidc` and `oauth2`: tokens of kind `\(provider.kind.rawValue)` are for its own API",
                path: path, line: upstream.line)
            return
        }
        for client in provider.settings.clients
        where upstream.settings?.clients?.contains(client.profile.name) ?? true {
            if let fault = fault(client, target) {
                context.report(
                    "\(fault) client `\(client.profile.name)` has `refresh: {mode: none}`; name others in `clients`",
                    path: path, line: upstream.line)
            }
            warn(of: client, target, path, upstream.line, context)
        }
    }

    /// Checks a backend's targets.
    ///
    /// A backend may ask about sessions of several providers, and at least one of them must be able to issue each token.
    private static func checkBackend(_ backend: BackendSection, _ draft: ConfigurationDraft, _ context: ConfigContext) {
        let asked = draft.providers.flatMap { provider in
            provider.settings.clients.filter { backend.settings.mayAsk(about: provider.name, $0.profile.name) }
                .map { (kind: provider.kind, client: $0) }
        }
        for (target, path) in zip(backend.settings.tokens, backend.tokenPaths) {
            let able = asked.filter { $0.kind.takesTargets && fault($0.client, target) == nil }
            if able.isEmpty, !asked.isEmpty {
                context.report(
                    "is an entry that none of the clients can get whose sessions it may ask about: it is for the kinds `oidc` "
                        + "or `oauth2`, and refresh tokens unless it is an `exchange`", path: path)
            }
            for (_, client) in able { warn(of: client, target, path, backend.line, context) }
        }
    }

    private static func checkProvider(
        _ provider: ProviderSection, _ targets: ConfiguredTargets, _ context: ConfigContext
    ) {
        var all: Set<TokenTarget> = []
        for client in provider.clients {
            var settings = client.settings
            settings.targets = targets.of(settings.profile.name, at: provider.name)
            all.formUnion(settings.targets)
            if !settings.targetResources.isEmpty,
                settings.wire.authorizationParameters.contains(where: { $0.name == "resource" })
            {
                context.report(
                    "has `resource`, which the `token` of upstreams and the `tokens` of backends name", line: client,
                    "authorization_parameters")
            }
            if settings.profile.scope.isEmpty, !settings.targetScope.isEmpty {
                context.report(
                    "is missing, and upstreams or backends name scopes. Sign-ins then request only these scopes, and lose the ones that "
                        + "the provider grants by default", line: client, "scope", severity: .warning)
            }
        }
        if all.count > mostKept {
            context.report(
                "gives tokens for \(all.count) APIs, upstreams and backends together: a session keeps those of \(mostKept), "
                    + "and removes the longest unused one", path: provider.path, line: provider.line, severity: .warning
            )
        }
    }

    /// Returns the beginning of a fault's sentence if the client can never get a token for the target; nil if it can.
    private static func fault(_ client: ClientSettings, _ target: TokenTarget) -> String? {
        target.grant == .refresh && client.wire.refresh == .none ? "is asked for with a refresh token, and" : nil
    }

    /// Warns of two problems with targets.
    ///
    /// - Many servers refuse exchanges for clients without authentication.
    /// - Some providers repeat a lost answer if the next call has the same `idempotency_key`. If the lost answer belongs to a
    ///   call for another API, the session's next call has another key, so that answer stays lost.
    private static func warn(
        of client: ClientSettings, _ target: TokenTarget, _ path: String, _ line: Int?, _ context: ConfigContext
    ) {
        if target.grant == .exchange, case .none = client.authentication {
            context.report(
                "has an exchange, and client `\(client.profile.name)` has `auth: none`: many servers refuse it to such clients; "
                    + "`coatcheck check --online` tries it", path: path, line: line, severity: .warning)
        }
        if target.grant == .refresh, client.wire.tokenRequest.idempotencyKey, client.wire.refresh != .keep {
            context.report(
                "is asked for with the refresh token of client `\(client.profile.name)`, whose provider repeats lost answers by "
                    + "`idempotency_key`: a lost answer of such a call cannot be replayed for the session's own key, and the "
                    + "session may end; use `exchange`", path: path, line: line, severity: .warning)
        }
    }
}

extension ConfigContext {
    /// Reports a problem at a client's key.
    fileprivate func report(
        _ message: String, line client: ClientSection, _ key: String, severity: ConfigProblem.Severity = .error
    ) {
        report(message, path: "\(client.location.path).\(key)", line: client.location.line, severity: severity)
    }
}
