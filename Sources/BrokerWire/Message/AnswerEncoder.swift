import HTTPTypes
import NIOCore
import NIOHTTP1

/// Writes answers as HTTP/1 has them (RFC 9112).
///
/// Field values are checked when they are made (HTTPTypes), so that none can end its line.
struct AnswerEncoder {
    /// Up to this size, in bytes, a body is copied behind its head: a second write costs more.
    private static let copied = 4096
    private static let room = 1024

    /// How the body of the answer is delimited that was begun last.
    private(set) var framing = BodyFraming.none

    /// Returns an answer's head, and behind it a whole body that is small; `rest` is a whole body that is not.
    mutating func begin(
        _ answer: Answer, _ head: ServerConnection.AnswerFraming
    ) -> (bytes: ByteBuffer, rest: ByteBuffer?) {
        var bytes = ByteBufferAllocator().buffer(capacity: Self.room)
        let status = HTTPResponseStatus(statusCode: answer.status.code, reasonPhrase: answer.status.reasonPhrase)
        bytes.writeStaticString(head.minorVersion == 0 ? "HTTP/1.0 " : "HTTP/1.1 ")
        bytes.writeString(String(status.code))
        bytes.writeStaticString(" ")
        bytes.writeString(status.reasonPhrase)
        bytes.writeStaticString("\r\n")
        for field in answer.fields {
            // Said of a body that cannot be, some take it for its framing (RFC 9110 section 8.6).
            if field.name == .contentLength, !status.mayHaveResponseBody { continue }
            bytes.writeField(field.name.rawName, field.value)
        }
        framing =
            head.isHead || !status.mayHaveResponseBody
            ? .none : answer.hasLength || head.minorVersion == 0 ? .plain : .chunked
        if framing == .chunked { bytes.writeStaticString("Transfer-Encoding: chunked\r\n") }
        if head.saysClose { bytes.writeStaticString("Connection: close\r\n") }
        bytes.writeStaticString("\r\n")
        guard framing == .plain, case .whole(var whole) = answer.body, whole.readableBytes > 0 else {
            return (bytes, nil)
        }
        guard whole.readableBytes <= Self.copied else { return (bytes, whole) }
        bytes.writeBuffer(&whole)
        return (bytes, nil)
    }

    /// Asks for a body whose sender waits to be asked (RFC 9110 section 15.2.1).
    static let interim = ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n")
}
