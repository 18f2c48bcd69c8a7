import HTTPTypes
import NIOCore
import NIOHTTP1

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
