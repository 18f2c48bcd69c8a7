import HTTPTypes
import NIOCore
import NIOHTTP1

extension HTTPRequest {
    /// Creates an HTTP/1 head in the terms of all versions; nil for a method that is no token.
    ///
    /// The path stays as it stood.
    init?(_ head: HTTPRequestHead) {
        guard let method = HTTPRequest.Method(rawValue: head.method.rawValue) else { return nil }
        var authority: String?
        var fields = HTTPFields()
        fields.reserveCapacity(head.headers.count)
        for (name, value) in head.headers {
            if authority == nil, name.isASCIIEqual(to: "host") {
                authority = value
            } else if let name = HTTPField.Name(name) {
                fields.append(HTTPField(name: name, value: value))
            }
        }
        self.init(method: method, scheme: "http", authority: authority, path: head.uri, headerFields: fields)
    }
}

extension ByteBuffer {
    /// Writes a field line (RFC 9112 section 5); name and value are checked where they are made.
    mutating func writeField(_ name: String, _ value: String) {
        writeString(name)
        writeStaticString(": ")
        writeString(value)
        writeStaticString("\r\n")
    }
}

/// The framing of a message's body on the wire (RFC 9112 section 6).
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
