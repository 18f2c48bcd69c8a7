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

/// A message's head on its way into a buffer (RFC 9112 section 2.1).
///
/// Its bytes are counted first and copied at once: a `ByteBuffer` that looks for room for each of fifty texts costs four times
/// as much. One closure says what they are, to the pass that counts and to the one that writes; and what the first has not
/// counted the second leaves out.
struct HeadWriter {
    /// The room for the bytes; nil while they are counted.
    private let memory: UnsafeMutableRawBufferPointer?
    private var count = 0

    private init(_ memory: UnsafeMutableRawBufferPointer?) { self.memory = memory }

    /// Returns a buffer with the head that `write` writes, and room for `more` behind it.
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

    /// Writes a field line (RFC 9112 section 5); name and value are checked where they are made.
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
        return HeadWriter.buffer(more: 0) { head in
            head.text("0")
            head.endLine()
            for field in trailers { head.field(field.name.rawName, field.value) }
            head.endLine()
        }
    }
}
