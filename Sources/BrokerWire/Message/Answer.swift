package import HTTPTypes
package import NIOCore

/// An answer before it is written.
///
/// Its fields are a plain array: they are made once, in order, and read once.
package struct Answer: Sendable {
    /// An answer's body.
    package enum Body: Sendable {
        case none
        /// Whole: it leaves together with the head.
        case whole(ByteBuffer)
        /// Written piece by piece, to its end; `length` where it is known.
        case stream(length: Int?, @concurrent @Sendable (any BodyWriter) async throws -> Void)

        /// The length, where it is known.
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
    /// Whether the connection is closed behind it.
    package var closes = false
    /// Whether its length is among the fields.
    package private(set) var hasLength: Bool

    /// Creates an answer; the body's length, where it is known, goes among the fields unless they say it already.
    package init(_ status: HTTPResponse.Status, _ fields: [HTTPField], body: Body = .none) {
        self.status = status
        self.fields = fields
        self.body = body
        hasLength = fields.contains { $0.name == .contentLength }
        if !hasLength, let length = body.length {
            self.fields.append(HTTPField(name: .contentLength, value: String(length)))
            hasLength = true
        }
    }

    /// Leaves the body out and what is said of it in: the answer to HEAD.
    package mutating func leaveBodyOut() { body = .none }
}
