package import BrokerWire
package import HTTPTypes
package import NIOCore

/// An app's request to the relay, as it came on the wire.
package struct RelayRequest: Sendable {
    package var method: HTTPRequest.Method
    package var target: RelayTarget
    package var headers: HTTPFields
    /// The body; a stream is read once, as fast as the upstream takes it.
    package var body: UpstreamRequest.Body
    /// The value of `X-Request-Id` on the way to the upstream.
    package var requestID: String
    /// The event loop that the upstream call is to stay on; nil is any.
    package var eventLoop: (any EventLoop)?

    package init(
        method: HTTPRequest.Method, target: RelayTarget, headers: HTTPFields, body: UpstreamRequest.Body = .none,
        requestID: String,
        eventLoop: (any EventLoop)? = nil
    ) {
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.requestID = requestID
        self.eventLoop = eventLoop
    }
}

/// A request target on the relay's route, cut into pieces and nothing more: no byte of it is decoded or changed.
package struct RelayTarget: Sendable, Equatable {
    /// The prefix of the relay's paths.
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
