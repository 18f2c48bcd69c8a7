package import BrokerWire
package import HTTPTypes
package import NIOCore

/// An app's request to the relay, unchanged.
package struct RelayRequest: Sendable {
    package var method: HTTPRequest.Method
    package var target: RelayTarget
    package var headers: HTTPFields
    /// The body.
    ///
    /// A stream is read once, as fast as the upstream accepts it.
    package var body: UpstreamRequest.Body
    /// The value of `X-Request-Id` for the upstream.
    package var requestID: String
    /// The event loop for the upstream call; nil means any.
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
