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
