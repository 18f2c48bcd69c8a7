package import NIOCore

/// How much and how long one connection may take (SEC-102, SEC-105).
package struct ChannelLimits: Sendable {
    /// Bytes of one header field, or of the request target.
    package var headerField = 8 * 1024
    /// Bytes of the request target and all header fields.
    package var headers = 16 * 1024
    /// Header fields in a request.
    package var headerFields = 64
    /// How long a connection may be silent between requests, or take to send a request's head.
    package var idle: Duration = .seconds(60)
    /// How long a client may leave what it is sent unread.
    package var write: TimeAmount = .seconds(60)
    /// How long a closed connection's remaining input is read and thrown away, so that the answer arrives.
    package var linger: TimeAmount = .seconds(2)

    package init() {}
}
