import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay

/// Checks the upstreams and backends that the settings of child sessions name.
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

    /// Warns of an upstream that may request another sign-in.
    ///
    /// A child must wait until its parent has signed in again.
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
