package import HTTPTypes
package import NIOCore

/// An app's request to the relay, as it came on the wire.
package struct RelayRequest: Sendable {
    /// A request body.
    package enum Body: Sendable {
        case none
        case buffered(ByteBuffer)
        /// Read once, chunk by chunk, as fast as the upstream takes it; `length` where the request announced one.
        case stream(RelayBodyStream, length: Int?)
    }

    package var method: HTTPRequest.Method
    package var target: RelayTarget
    package var headers: HTTPFields
    package var body: Body
    /// What goes upstream as `X-Request-Id`.
    package var requestID: String
    /// The event loop that the upstream call is to stay on; nil is any.
    package var eventLoop: (any EventLoop)?

    package init(
        method: HTTPRequest.Method, target: RelayTarget, headers: HTTPFields, body: Body = .none, requestID: String,
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
