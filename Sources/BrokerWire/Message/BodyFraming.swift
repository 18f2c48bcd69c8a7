import HTTPTypes
import NIOCore
import NIOHTTP1

/// The framing of a message's body on the wire (RFC 9112 section 6).
enum BodyFraming {
    /// The message has no body, and written pieces are dropped.
    case none
    /// The body is sent as it is, and ends at its announced length or with the connection.
    case plain
    case chunked

    private static let lineEnd = ByteBuffer(staticString: "\r\n")
    private static let lastChunk = ByteBuffer(staticString: "0\r\n\r\n")

    /// Calls `write` with a piece of a body in the form of its framing.
    func pass(_ piece: ByteBuffer, _ write: (ByteBuffer) -> Void) {
        // An empty chunk would end the body.
        guard self != .none, piece.readableBytes > 0 else { return }
        guard self == .chunked else { return write(piece) }
        write(ByteBuffer(string: String(piece.readableBytes, radix: 16) + "\r\n"))
        write(piece)
        write(Self.lineEnd)
    }

    /// Returns the bytes that end a body, if its framing requires any.
    func end(_ trailers: HTTPFields? = nil) -> ByteBuffer? {
        guard self == .chunked else { return nil }
        guard let trailers, !trailers.isEmpty else { return Self.lastChunk }
        return HeadWriter.buffer(more: 0) { head in
            head.text("0")
            head.endLine()
            for field in trailers { head.field(field.name.rawName, field.value) }
            head.endLine()
        }
    }
}
