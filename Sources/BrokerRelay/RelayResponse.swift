package import HTTPTypes
package import NIOCore

/// An upstream's answer, ready for the app, with forbidden fields removed and `Coatcheck-Source` added.
package struct RelayResponse: Sendable {
    /// A response body.
    package enum Body: Sendable {
        /// The answer has no body: HEAD, 204, 304, or an empty body.
        case none
        /// A small complete body, which is sent in one write with the head.
        case buffered(ByteBuffer)
        /// A body that is read in pieces.
        ///
        /// Read the stream to its end or its error before the request's handler returns. If the reader stops earlier, the app's
        /// connection must close.
        case stream(RelayBody)
    }

    package let status: HTTPResponse.Status
    /// The header fields for the app.
    ///
    /// The server adds the framing fields.
    package var headers: HTTPFields
    /// The value of `Content-Length`, or nil if unknown.
    ///
    /// For HEAD, this is the upstream's value. For other methods, it is the body's length.
    package let contentLength: Int?
    package let body: Body
}
