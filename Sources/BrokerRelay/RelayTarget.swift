/// A request target on the relay's route, cut into pieces and nothing more: no byte of it is decoded or changed.
package struct RelayTarget: Sendable, Equatable {
    /// Where the relay lives.
    package static let prefix = "/v1/relay/"

    /// The upstream's name as it came.
    package let upstream: String
    /// The raw path behind the name, `/` at least.
    package let path: Substring
    /// The raw query behind the first `?`; nil without one.
    package let query: Substring?

    /// Cuts a raw request target (`/v1/relay/orders/v1/items?page=2`); returns nil when it is not the relay's.
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

    /// Creates a target from its pieces.
    package init(upstream: String, path: Substring, query: Substring? = nil) {
        self.upstream = upstream
        self.path = path
        self.query = query
    }
}
