package import HTTPTypes
package import NIOCore
import NIOHTTP1

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

    /// Leaves the body out and what is said of it in: the answer to HEAD.
    package mutating func leaveBodyOut() { body = .none }
}

/// The receiver of a streamed answer's body.
package protocol BodyWriter: Sendable {
    /// Writes a piece and waits until there is room for the next; throws when the client is gone.
    func write(_ buffer: ByteBuffer) async throws

    /// Ends the body.
    func finish(_ trailers: HTTPFields?) async throws

    /// Ends the connection within the body, so that it does not look whole: at once, from any thread, also while a piece waits
    /// for room. An answer that has ended stays as it is.
    func cut()
}

/// Writes answers as HTTP/1 has them (RFC 9112).
///
/// Field values are checked when they are made (HTTPTypes), so that none can end its line.
struct AnswerEncoder {
    /// Up to this size, in bytes, a body is copied behind its head: a second write costs more.
    private static let copied = 4096

    /// The framing of the answer's body that was begun last.
    private(set) var framing = BodyFraming.none

    /// Returns an answer's head, and behind it a whole body that is small; `rest` is a whole body that is not.
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
                // Said of a body that cannot be, some take it for its framing (RFC 9110 section 8.6).
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

    /// Asks for a body whose sender waits to be asked (RFC 9110 section 15.2.1).
    static let interim = ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n")
}
