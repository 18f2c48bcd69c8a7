import HTTPTypes
import NIOCore
import NIOHTTP1

extension HTTPRequest {
    /// Creates a version-independent request from an HTTP/1 head; nil if the method is not a token.
    ///
    /// The path is unchanged.
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

/// Writes a message's head into a buffer (RFC 9112 section 2.1).
///
/// The bytes are counted first and then copied at once. A `ByteBuffer` that makes room for each of fifty texts costs four times
/// as much. One closure produces the bytes for both passes. Bytes that the first pass did not count are left out by the second.
struct HeadWriter {
    /// The memory for the bytes; nil during counting.
    private let memory: UnsafeMutableRawBufferPointer?
    private var count = 0

    private init(_ memory: UnsafeMutableRawBufferPointer?) { self.memory = memory }

    /// Returns a buffer with the head that `write` produces, and room for `more` bytes behind it.
    static func buffer(more: Int, _ write: (inout HeadWriter) -> Void) -> ByteBuffer {
        var counter = HeadWriter(nil)
        write(&counter)
        let size = counter.count
        var buffer = ByteBufferAllocator().buffer(capacity: size + more)
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: size) { memory in
            var writer = HeadWriter(UnsafeMutableRawBufferPointer(rebasing: memory[..<size]))
            write(&writer)
            return writer.count
        }
        return buffer
    }

    /// Writes a text.
    mutating func text(_ text: String) {
        guard let memory else {
            count += text.utf8.count
            return
        }
        let isWritten: Void? = text.utf8.withContiguousStorageIfAvailable { utf8 in
            guard utf8.count <= memory.count - count else { return }
            UnsafeMutableRawBufferPointer(rebasing: memory[count...]).copyMemory(from: UnsafeRawBufferPointer(utf8))
            count += utf8.count
        }
        guard isWritten == nil else { return }
        for byte in text.utf8 { self.byte(byte) }
    }

    /// Writes a field line (RFC 9112 section 5).
    ///
    /// Name and value were checked when they were made.
    mutating func field(_ name: String, _ value: String) {
        text(name)
        byte(UInt8(ascii: ":"))
        byte(UInt8(ascii: " "))
        text(value)
        endLine()
    }

    /// Ends a line, or the head.
    mutating func endLine() {
        byte(UInt8(ascii: "\r"))
        byte(UInt8(ascii: "\n"))
    }

    private mutating func byte(_ byte: UInt8) {
        if let memory {
            guard count < memory.count else { return }
            memory[count] = byte
        }
        count += 1
    }
}

/// The framing of a message's body on the wire (RFC 9112 section 6).
enum BodyFraming {
    /// The message has no body, and written pieces are dropped.
    case none
    /// The body ends by its length or with the connection.
    case plain
    case chunked

    private static let lineEnd = ByteBuffer(staticString: "\r\n")
    private static let lastChunk = ByteBuffer(staticString: "0\r\n\r\n")

    /// Calls `write` with the wire form of a piece of a body.
    func pass(_ piece: ByteBuffer, _ write: (ByteBuffer) -> Void) {
        // An empty chunk would end the body.
        guard self != .none, piece.readableBytes > 0 else { return }
        guard self == .chunked else { return write(piece) }
        write(ByteBuffer(string: String(piece.readableBytes, radix: 16) + "\r\n"))
        write(piece)
        write(Self.lineEnd)
    }

    /// Returns the end of a body, if its framing needs one.
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
