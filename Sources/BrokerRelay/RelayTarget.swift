/// The target of a request on the relay's route, split into parts whose bytes are unchanged.
package struct RelayTarget: Sendable, Equatable {
    /// The prefix of the relay's paths.
    package static let prefix = "/v1/relay/"

    /// The upstream's name, unchanged.
    package let upstream: String
    /// The raw path after the name, at least `/`.
    package let path: Substring
    /// The raw query after the first `?`; nil if the `?` is missing.
    package let query: Substring?

    /// Splits a raw request target (`/v1/relay/orders/v1/items?page=2`); returns nil if it is not a relay path.
    package init?(_ target: String) {
        guard target.hasPrefix(Self.prefix) else { return nil }
        let rest = target.dropFirst(Self.prefix.count)
        let queryMark = rest.utf8.firstIndex(of: 0x3F)
        let whole = rest[..<(queryMark ?? rest.endIndex)]
        let nameEnd = whole.utf8.firstIndex(of: 0x2F) ?? whole.endIndex
        self.init(
            upstream: String(whole[..<nameEnd]), path: nameEnd == whole.endIndex ? "/" : whole[nameEnd...],
            query: queryMark.map { rest[rest.utf8.index(after: $0)...] })
    }

    /// Creates a target from its parts.
    package init(upstream: String, path: Substring, query: Substring? = nil) {
        self.upstream = upstream
        self.path = path
        self.query = query
    }
}
