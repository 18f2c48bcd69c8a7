import Broker
import BrokerHTTP

/// A service of the operator's that may ask about sessions (`backends.NAME`), with its place in the file.
struct BackendSection: Sendable {
    let settings: BackendConfiguration
    let path: String
    let line: Int?

    init?(name: String, _ section: ConfigSection) {
        path = section.path
        line = section.line
        let digest = section.sha256("sha256")
        let may = section.choices("may", as: BackendPermission.self)
        let ranges = section.networks("peers")
        let forward = section.flag("forward_access_token", default: false)
        let slides = section.flag("slides", default: false)
        let scopes = section.list("allow").compactMap { item -> BackendConfiguration.Scope? in
            let clients = item.words("clients").map { Set($0.map { ClientName(unchecked: $0) }) }
            guard let provider = item.requiredText("provider", limit: 63) else { return nil }
            return BackendConfiguration.Scope(provider: ProviderName(unchecked: provider), clients: clients)
        }
        if !section.has("sha256"), ranges.isEmpty {
            section.report(nil, "needs `sha256` or `peers`: how it proves itself")
        }
        if may.isEmpty { section.report(nil, "needs `may`: one or more of `introspect`, `token`, `forward-auth`") }
        if forward, !may.contains(.forwardAuth) {
            section.report("forward_access_token", "needs `forward-auth` in `may`")
        }
        if slides, !may.contains(.introspect) { section.report("slides", "needs `introspect` in `may`") }
        for range in ranges where range.isEverything { section.report("peers", "holds the whole internet (\(range))") }
        guard let name = BackendName(name) else {
            section.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            return nil
        }
        settings = BackendConfiguration(
            name: name, digest: digest, may: may, peers: ranges,
            allow: section.has("allow") ? scopes : nil, forwardAccessToken: forward, slides: slides)
    }
}
