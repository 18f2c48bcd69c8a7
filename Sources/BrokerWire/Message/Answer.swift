package import HTTPTypes
package import NIOCore
import NIOHTTP1

/// An answer before it is written.
///
/// The header fields are a plain array, because they are appended in order and then read only one time.
package struct Answer: Sendable {
    /// An answer's body.
    package enum Body: Sendable {
        case none
        /// A complete body; a small one is sent together with the head.
        case whole(ByteBuffer)
        /// A body that is written in pieces; `length` is its number of bytes, if known.
        case stream(length: Int?, @concurrent @Sendable (any BodyWriter) async throws -> Void)

        /// The body's length in bytes; nil if it is unknown.
        package var length: Int? {
            switch self {
            case .none: 0
            case .whole(let buffer): buffer.readableBytes
            case .stream(let length, _): length
            }
        }
    }

    package let status: HTTPResponse.Status
    package var fields: [HTTPField]
    package var body: Body
    /// Whether the connection is closed after this answer.
    package var closes = false
    /// Whether the header fields contain `Content-Length`.
    package private(set) var hasLength: Bool

    /// Creates an answer.
    ///
    /// If the fields lack `Content-Length` and the body's length is known, `Content-Length` is added.
    package init(_ status: HTTPResponse.Status, _ fields: consuming [HTTPField], body: Body = .none) {
        self.status = status
        self.body = body
        hasLength = fields.contains { $0.name == .contentLength }
        if !hasLength, let length = body.length {
            fields.append(HTTPField(name: .contentLength, value: String(length)))
            hasLength = true
        }
        self.fields = fields
    }

    /// Removes the body and keeps the fields that describe it, for the answer to HEAD.
    package mutating func leaveBodyOut() { body = .none }
}
