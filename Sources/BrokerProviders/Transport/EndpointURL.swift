import Broker

/// A URL that a provider may be called at: https, or http on loopback; no user information, no fragment, printable
/// ASCII only, so that nothing re-encodes it (engineering note 11).
struct EndpointURL: Sendable, Hashable {
    /// The text, as configured or discovered.
    let text: String
    /// Everything before the query.
    let base: RedirectURI
    /// The query, when there is one.
    let query: String?

    init?(_ text: String) {
        guard text.isASCII else { return nil }
        let split = text.firstIndex(of: "?")
        let query = split.map { String(text[text.index(after: $0)...]) }
        guard let base = RedirectURI(String(text[..<(split ?? text.endIndex)])), base.host?.isEmpty == false,
            base.scheme == "https" || (base.scheme == "http" && base.isLoopback),
            query.map({ $0.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"\"#<>\\^`{|}".utf8.contains($0) } })
                ?? true
        else { return nil }
        self.text = text
        self.base = base
        self.query = query
    }

    /// Whether the host is loopback.
    var isLoopback: Bool { base.isLoopback }

    /// Returns the URL with pairs added to its query; nil when one of the names stands there already.
    func adding(_ pairs: [(name: String, value: String)]) -> String? {
        guard let query, !query.isEmpty else { return pairs.isEmpty ? text : base.text + "?" + FormPairs.encode(pairs) }
        guard let own = try? FormPairs(parsing: query), pairs.allSatisfy({ own[$0.name] == nil }) else { return nil }
        return pairs.isEmpty ? text : text + "&" + FormPairs.encode(pairs)
    }
}
