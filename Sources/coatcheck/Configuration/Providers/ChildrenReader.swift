import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay

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

/// Checks the names that the settings of child sessions refer to.
enum ChildrenRules {
    static func check(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        let upstreams = draft.upstreams.compactMap { $0.settings }
        let backends = draft.backends.map { $0.settings.name.text }
        for provider in draft.providers {
            for client in provider.clients {
                warnOfBearers(client, context)
                for (kind, policy) in client.settings.profile.children.sorted(by: { $0.key < $1.key }) {
                    let path = "\(client.location.path).children.\(kind)"
                    for name in policy.upstreams.sorted() {
                        guard let upstream = upstreams.first(where: { $0.name == name }) else {
                            // The upstream is in the file but unreadable, which was reported already.
                            if draft.upstreams.contains(where: { $0.path == "upstreams.\(name)" }) { continue }
                            let hint = Spelling.hint(for: name.text, among: upstreams.map(\.name.text))
                            context.report(
                                "names an upstream that is not configured" + hint, path: "\(path).upstreams",
                                line: client.location.line)
                            continue
                        }
                        guard upstream.provider != provider.name else {
                            warnOfStepUps(upstream, provider, client, kind, at: path, context)
                            continue
                        }
                        context.report(
                            "names an upstream of another provider, `\(upstream.provider)`", path: "\(path).upstreams",
                            line: client.location.line)
                    }
                    for name in policy.backends.sorted() where !backends.contains(name.text) {
                        context.report(
                            "names a backend that is not configured" + Spelling.hint(for: name.text, among: backends),
                            path: "\(path).backends", line: client.location.line)
                    }
                }
            }
        }
    }

    /// Warns of an upstream that may request another sign-in, because a child has no sign-in of its own and must wait for its
    /// parent's.
    private static func warnOfStepUps(
        _ upstream: UpstreamSettings, _ provider: ProviderSection, _ client: ClientSection, _ kind: ChildKind,
        at path: String, _ context: ConfigContext
    ) {
        guard upstream.passesChallenges, provider.settings.profile.stepUp != .nothing else { return }
        context.report(
            "names `\(upstream.name)`, which may ask for another sign-in by itself: after the app's step-up it takes the calls "
                + "of children of kind `\(kind)`, too, because they carry their parent's token; leave it out, or write "
                + "`challenges: off` on the upstream if it judges no sign-in", path: "\(path).upstreams",
            line: client.location.line, severity: .warning)
    }

    /// Warns of web children of bound sessions.
    ///
    /// A web page lacks the app's key, so a copy of its cookie is enough for the calls of the web child.
    private static func warnOfBearers(_ client: ClientSection, _ context: ConfigContext) {
        let profile = client.settings.profile
        guard profile.binding.mode == .enforce, profile.children[.web] != nil else { return }
        context.report(
            "is a cookie and has no key, although the client has `binding: enforce`: a bearer of what its `upstreams` and "
                + "`backends` name, for its life, and of nothing else", path: "\(client.location.path).children.web",
            line: client.location.line, severity: .warning)
    }
}
