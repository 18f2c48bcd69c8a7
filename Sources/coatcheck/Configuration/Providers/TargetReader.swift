import Broker

/// Reads the further APIs for which access tokens are requested: `upstreams.NAME.token` and the entries of
/// `backends.NAME.tokens`.
enum TargetReader {
    /// The largest number of resources of one target.
    private static let mostResources = 8
    private static let longestResource = 2048
    private static let longestAudience = 512

    /// Reads a target and reports its faults; nil while the decoders only collect the names of all keys.
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

extension ProviderKind {
    /// Whether this kind of server issues tokens for other APIs.
    var takesTargets: Bool { self == .oidc || self == .oauth2 }
}
