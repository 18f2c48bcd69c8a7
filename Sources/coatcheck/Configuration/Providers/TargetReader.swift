import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay

/// Reads the further APIs for which access tokens are requested: `upstreams.NAME.token` and the entries of
/// `backends.NAME.tokens`.
enum TargetReader {
    /// The largest number of resources of one target.
    private static let mostResources = 8
    private static let longestResource = 2048
    private static let longestAudience = 512

    /// Reads a target and reports its faults; nil if the decoders only collect all keys.
    static func target(_ section: ConfigSection) -> TokenTarget? {
        let exchange = section.optionalSection("exchange")
        let plain = parameters(section, .refresh)
        let exchanged = exchange.map { parameters($0, .exchange) }
        guard !section.context.isCataloguing else { return nil }
        guard let exchange else {
            if plain == TokenTarget() {
                section.report(nil, "needs `resource`, `audience`, `scope` or `exchange` to name the token's API")
            }
            return plain
        }
        for key in ["resource", "audience", "scope"] where section.has(key) {
            section.report(key, "stands beside `exchange`: an exchange names it below, `exchange: {\(key): …}`")
        }
        if exchanged == TokenTarget(grant: .exchange), !exchange.has("resource"), !exchange.has("audience"),
            !exchange.has("scope")
        {
            section.report("exchange", "needs `resource`, `audience` or `scope` to name the token's API")
        }
        return exchanged
    }

    /// Reads a backend's targets, with their paths in the file.
    ///
    /// Each target must be unique, because a backend's request names a target by its parameters, in any order.
    static func targets(_ section: ConfigSection, _ key: String) -> [(target: TokenTarget, path: String)] {
        var names: Set<TokenTarget> = []
        return section.list(key).compactMap { item in
            guard let target = target(item) else { return nil }
            let name = TokenTarget(
                resources: target.resources.sorted(), audience: target.audience, scope: target.scope.sorted())
            if !names.insert(name).inserted { item.report(nil, "is an entry for the second time") }
            return (target, item.path)
        }
    }

    private static func parameters(_ section: ConfigSection, _ grant: TokenTarget.Grant) -> TokenTarget {
        let resources = section.texts("resource", limit: longestResource)
        for resource in resources where !isResource(resource) {
            section.report(
                "resource", "has to be an absolute URI without fragment (RFC 8707), such as `https://api.example.com/`")
        }
        if Set(resources).count < resources.count { section.report("resource", "names something twice") }
        if resources.count > mostResources || section.has("resource") && resources.isEmpty {
            section.report("resource", "has to be 1 to \(mostResources) URIs")
        }
        let audience = section.text("audience", limit: longestAudience)
        if let audience, !audience.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) {
            section.report("audience", "has to be of ASCII")
        }
        let scope = section.words("scope") ?? []
        if scope.contains(where: { $0.contains("\"") || $0.contains("\\") }) {
            section.report("scope", "holds an entry that is not a scope")
        }
        if Set(scope).count < scope.count { section.report("scope", "names something twice") }
        if section.has("scope"), scope.isEmpty { section.report("scope", "names nothing") }
        return TokenTarget(grant: grant, resources: resources, audience: audience, scope: scope)
    }

    /// Whether a text is an absolute URI without a fragment (RFC 8707 section 2).
    private static func isResource(_ text: String) -> Bool {
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")),
            text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && ![0x22, 0x23, 0x3C, 0x3E, 0x5C].contains($0) })
        else { return false }
        let scheme = text[..<colon]
        return scheme.first?.isLetter == true
            && scheme.allSatisfy { $0.isLetter || $0.isNumber || "+-.".contains($0) }
            && text.index(after: colon) < text.endIndex
    }
}

/// The further APIs that each client's tokens may be for, from upstreams and backends together.
struct ConfiguredTargets {
    private let upstreams: [UpstreamSection]
    private let backends: [BackendSection]

    init(_ upstreams: [UpstreamSection], _ backends: [BackendSection]) {
        self.upstreams = upstreams
        self.backends = backends
    }

    /// Returns a client's targets without repetitions, in the file's order, upstreams first.
    func of(_ client: ClientName, at provider: ProviderName) -> [TokenTarget] {
        let own = upstreams.compactMap(\.settings).filter { upstream in
            upstream.provider == provider && upstream.clients?.contains(client) ?? true
        }
        let asked = backends.map(\.settings).filter { $0.mayAsk(about: provider, client) }
        var seen: Set<TokenTarget> = []
        return (own.compactMap(\.token) + asked.flatMap(\.tokens)).filter { seen.insert($0).inserted }
    }

    /// Returns a provider with its clients' targets, and with the targets' scopes added to the clients' own.
    func joined(to provider: ProviderSection) -> ProviderSection {
        guard provider.kind.takesTargets else { return provider }
        var joined = provider
        for index in joined.settings.clients.indices {
            joined.settings.clients[index].targets = of(
                joined.settings.clients[index].profile.name, at: provider.name)
            let client = joined.settings.clients[index]
            joined.settings.clients[index].profile.scope += client.targetScope.filter {
                !client.profile.scope.contains($0)
            }
        }
        return joined
    }
}

extension ProviderKind {
    /// Whether this kind of server issues tokens for other APIs.
    var takesTargets: Bool { self == .oidc || self == .oauth2 }
}

/// Checks targets against the providers that would have to issue the tokens.
enum TargetRules {
    /// The largest number of targets of one session whose tokens are stored.
    private static let mostKept = 8

    static func check(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        for upstream in draft.upstreams {
            guard let settings = upstream.settings, let target = settings.token,
                let provider = draft.providers.first(where: { $0.name == settings.provider })
            else { continue }
            check(target, of: upstream, provider, context)
        }
        for backend in draft.backends where !backend.settings.tokens.isEmpty { check(backend, draft, context) }
        let targets = ConfiguredTargets(draft.upstreams, draft.backends)
        for provider in draft.providers where provider.kind.takesTargets { check(targets, of: provider, context) }
    }

    private static func check(
        _ target: TokenTarget, of upstream: UpstreamSection, _ provider: ProviderSection, _ context: ConfigContext
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
    private static func check(_ backend: BackendSection, _ draft: ConfigurationDraft, _ context: ConfigContext) {
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

    private static func check(_ targets: ConfiguredTargets, of provider: ProviderSection, _ context: ConfigContext) {
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
