import HTTPTypes
import NIOCore
import NIOHTTP1

/// Writes answers as HTTP/1 has them (RFC 9112).
///
/// Field values are checked when they are made (HTTPTypes), so that none can end its line.
struct AnswerEncoder {
    /// How the body of an answer is delimited (RFC 9112 section 6.3).
    private enum BodyFraming {
        /// There is none, whatever is written.
        case none
        /// By its length or by the connection's end.
        case plain
        case chunked
    }

    /// Up to this size, in bytes, a body is copied behind its head: a second write costs more.
    private static let copied = 4096
    private static let room = 1024

    private var framing = BodyFraming.none

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
            bytes.write(field)
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

    /// Calls `write` with what a piece of a body is on the wire.
    func pass(_ piece: ByteBuffer, _ write: (ByteBuffer) -> Void) {
        // An empty chunk would be the last.
        guard framing != .none, piece.readableBytes > 0 else { return }
        guard framing == .chunked else { return write(piece) }
        write(ByteBuffer(string: String(piece.readableBytes, radix: 16) + "\r\n"))
        write(piece)
        write(Self.lineEnd)
    }

    /// Returns what ends a body, where its framing wants it.
    func end(_ trailers: HTTPFields?) -> ByteBuffer? {
        guard framing == .chunked else { return nil }
        guard let trailers, !trailers.isEmpty else { return Self.lastChunk }
        var bytes = ByteBuffer(staticString: "0\r\n")
        for field in trailers { bytes.write(field) }
        bytes.writeStaticString("\r\n")
        return bytes
    }

    /// Asks for a body whose sender waits to be asked (RFC 9110 section 15.2.1).
    static let interim = ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n")
    private static let lineEnd = ByteBuffer(staticString: "\r\n")
    private static let lastChunk = ByteBuffer(staticString: "0\r\n\r\n")
}

extension ByteBuffer {
    fileprivate mutating func write(_ field: HTTPField) {
        writeString(field.name.rawName)
        writeStaticString(": ")
        writeString(field.value)
        writeStaticString("\r\n")
    }
}
