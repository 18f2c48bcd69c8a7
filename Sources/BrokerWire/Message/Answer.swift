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
    /// `Content-Length` is added to the fields if the body's length is known and they do not contain it.
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

/// The receiver of a streamed answer's body.
package protocol BodyWriter: Sendable {
    /// Writes a piece and waits until the next piece may be written; throws if the client has left.
    func write(_ buffer: ByteBuffer) async throws

    /// Ends the body.
    func finish(_ trailers: HTTPFields?) async throws

    /// Ends the connection before the body is complete, so that the client does not treat the body as complete.
    ///
    /// Call `cut` from any thread, even while a piece waits to be sent. The effect is immediate. If the answer has ended, the
    /// call has no effect.
    func cut()
}

/// Encodes answers in the form of HTTP/1 (RFC 9112).
///
/// HTTPTypes checks field values when they are made, so a value cannot end its line.
struct AnswerEncoder {
    /// The largest body, in bytes, that is copied behind its head, because a second write would cost more than the copy.
    private static let copied = 4096

    /// The framing of the current answer's body.
    private(set) var framing = BodyFraming.none

    /// Returns an answer's head, followed by its complete body if that is small.
    ///
    /// A larger complete body is returned in `rest`.
    mutating func begin(
        _ answer: Answer, _ head: ServerConnection.AnswerFraming
    ) -> (bytes: ByteBuffer, rest: ByteBuffer?) {
        let status = HTTPResponseStatus(statusCode: answer.status.code, reasonPhrase: answer.status.reasonPhrase)
        let mayHaveBody = status.mayHaveResponseBody
        framing =
            head.isHead || !mayHaveBody
            ? .none : answer.hasLength || head.minorVersion == 0 ? .plain : .chunked
        var behind: ByteBuffer?
        var rest: ByteBuffer?
        if framing == .plain, case .whole(let whole) = answer.body {
            if whole.readableBytes <= Self.copied { behind = whole } else { rest = whole }
        }
        var bytes = HeadWriter.buffer(more: behind?.readableBytes ?? 0) { writer in
            writer.text(head.minorVersion == 0 ? "HTTP/1.0 " : "HTTP/1.1 ")
            writer.text(String(status.code))
            writer.text(" ")
            writer.text(status.reasonPhrase)
            writer.endLine()
            for field in answer.fields {
                // An answer with this status has no body. Leave `Content-Length` out, because some clients would wait for that
                // many bytes (RFC 9110 section 8.6).
                if !mayHaveBody, field.name == .contentLength { continue }
                writer.field(field.name.rawName, field.value)
            }
            if framing == .chunked { writer.field("Transfer-Encoding", "chunked") }
            if head.saysClose { writer.field("Connection", "close") }
            writer.endLine()
        }
        if let behind { bytes.writeImmutableBuffer(behind) }
        return (bytes, rest)
    }

    /// The interim answer that asks a waiting sender for its body (RFC 9110 section 15.2.1).
    static let interim = ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n")
}
