import Broker

/// Reads `clients.NAME.children`, the kinds of child sessions that a client's sessions may have.
enum ChildrenReader {
    /// The largest number of kinds of child sessions for one client.
    private static let maximum = 16

    static func read(_ section: ConfigSection, defaults: SessionLifetimes) -> [ChildKind: ChildPolicy] {
        guard section.has("children") || section.context.isCataloguing else {
            _ = section.node("children")
            return [:]
        }
        var children: [ChildKind: ChildPolicy] = [:]
        for (name, kind) in section.named("children") {
            let isWeb = name == ChildKind.web.text
            var policy = ChildPolicy(
                lifetimes: SessionSettings.lifetimes(kind, defaults: isWeb ? webLifetimes : defaults),
                upstreams: Set((kind.words("upstreams") ?? []).map { UpstreamName(unchecked: $0) }),
                backends: Set((kind.words("backends") ?? []).map { BackendName(unchecked: $0) }))
            if isWeb || section.context.isCataloguing { read(kind, into: &policy) }
            if let name = ChildKind(name) {
                children[name] = policy
            } else if !section.context.isCataloguing {
                kind.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            }
        }
        if children.count > maximum { section.report("children", "has more than \(maximum) kinds") }
        return children
    }

    /// The default lifetimes of a web page's session, which are short.
    private static let webLifetimes = SessionLifetimes(idle: .seconds(1800), absolute: .seconds(28_800))

    /// Reads the settings of hand-overs, which only kind `web` has.
    private static func read(_ kind: ConfigSection, into policy: inout ChildPolicy) {
        policy.sameSite = kind.choice("same_site") ?? .lax
        policy.origins = Set(
            kind.texts("origins").compactMap { text -> String? in
                guard let url = WebURL(text), url.path.isEmpty, url.origin == text, url.isSecure || url.isLoopback
                else {
                    kind.report(
                        "origins",
                        "has to hold origins as browsers write them, such as `https://app.example.com`: that of "
                            + "`public_url`, too, where it has pages")
                    return nil
                }
                return text
            })
        if policy.origins.isEmpty, !kind.context.isCataloguing, !kind.has("origins") {
            kind.report(nil, "needs `origins`, the pages that may receive the session")
        }
    }
}
