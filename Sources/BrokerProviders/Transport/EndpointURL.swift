import Broker

/// A URL for calls to a provider: https, or http on loopback.
///
/// User information and fragments are refused. Only printable ASCII is accepted, so that the URL is never encoded again
/// (library note 6).
package struct EndpointURL: Sendable, Hashable {
    /// The text, as configured or discovered.
    package let text: String
    /// The URL without its query.
    let base: RedirectURI
    /// The query, if there is one.
    let query: String?

    package init?(_ text: String) {
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

    /// The URL with its final slash removed, so that paths can be appended.
    package var withoutSlash: EndpointURL {
        text.hasSuffix("/") ? EndpointURL(String(text.dropLast())) ?? self : self
    }

    /// Returns the URL of a path below this URL; throws `notSent` unless the result is a valid URL.
    func at(_ path: String) throws(ProviderFailure) -> EndpointURL {
        guard let url = EndpointURL(text + path) else { throw .notSent(detail: "not a URL to call") }
        return url
    }

    /// Returns the URL with parameters added to its query; nil if the query already has a parameter of the same name.
    func adding(_ pairs: [(name: String, value: String)]) -> EndpointURL? {
        let added = FormPairs.encode(pairs)
        guard let query, !query.isEmpty else { return pairs.isEmpty ? self : EndpointURL(base, query: added) }
        guard let own = try? FormPairs(parsing: query), pairs.allSatisfy({ own[$0.name] == nil }) else { return nil }
        return pairs.isEmpty ? self : EndpointURL(base, query: query + "&" + added)
    }

    private init(_ base: RedirectURI, query: String) {
        text = base.text + "?" + query
        self.base = base
        self.query = query
    }
}
