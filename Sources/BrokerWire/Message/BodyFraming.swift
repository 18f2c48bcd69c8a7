import HTTPTypes
import NIOCore

/// How a message's body is delimited on the wire (RFC 9112 section 6).
enum BodyFraming {
    /// There is none, whatever is written.
    case none
    /// By its length or by the connection's end.
    case plain
    case chunked

    private static let lineEnd = ByteBuffer(staticString: "\r\n")
    private static let lastChunk = ByteBuffer(staticString: "0\r\n\r\n")

    /// Calls `write` with what a piece of a body is on the wire.
    func pass(_ piece: ByteBuffer, _ write: (ByteBuffer) -> Void) {
        // An empty chunk would be the last.
        guard self != .none, piece.readableBytes > 0 else { return }
        guard self == .chunked else { return write(piece) }
        write(ByteBuffer(string: String(piece.readableBytes, radix: 16) + "\r\n"))
        write(piece)
        write(Self.lineEnd)
    }

    /// Returns what ends a body, where its framing wants it.
    func end(_ trailers: HTTPFields? = nil) -> ByteBuffer? {
        guard self == .chunked else { return nil }
        guard let trailers, !trailers.isEmpty else { return Self.lastChunk }
        var bytes = ByteBuffer(staticString: "0\r\n")
        for field in trailers { bytes.writeField(field.name.rawName, field.value) }
        bytes.writeStaticString("\r\n")
        return bytes
    }
}
