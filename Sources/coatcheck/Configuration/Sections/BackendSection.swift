import Broker

/// Is a service of the operator's that may ask about sessions (`backends.NAME`).
struct BackendSection: Sendable {
    enum Permission: String, Sendable, CaseIterable, Hashable { case introspect, token, forwardAuth = "forward-auth" }

    /// Is whose sessions it may ask about.
    struct Scope: Sendable {
        let provider: String
        /// Nil is every client.
        let clients: [String]?
    }

    let name: BackendName
    let sha256: Digest?
    let may: Set<Permission>
    let peers: [AddressRange]
    /// Nil is every provider.
    let allow: [Scope]?
    let forwardAccessToken: Bool
    let line: Int?
    let path: String

    init?(name: String, _ section: ConfigSection) {
        line = section.line
        path = section.path
        sha256 = section.sha256("sha256")
        may = section.choices("may")
        peers = section.addressRanges("peers")
        forwardAccessToken = section.flag("forward_access_token", default: false)
        let scopes = section.list("allow").compactMap { item -> Scope? in
            let clients = item.words("clients")
            guard let provider = item.requiredText("provider", limit: 63) else { return nil }
            return Scope(provider: provider, clients: clients)
        }
        allow = section.has("allow") ? scopes : nil
        if !section.has("sha256"), peers.isEmpty { section.report(nil, "needs `sha256` or `peers`: how it proves itself") }
        if may.isEmpty { section.report(nil, "needs `may`: one or more of `introspect`, `token`, `forward-auth`") }
        if forwardAccessToken, !may.contains(.forwardAuth) {
            section.report("forward_access_token", "needs `forward-auth` in `may`")
        }
        for peer in peers where peer.prefix == 0 { section.report("peers", "holds the whole internet (\(peer))") }
        guard let name = BackendName(name) else {
            section.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            return nil
        }
        self.name = name
    }
}
