import NIOCore

/// Writes a message's head into a buffer (RFC 9112 section 2.1).
///
/// The bytes are written into memory that is large enough for most heads, because a `ByteBuffer` that grows for each of fifty
/// texts costs four times as much. The size of a larger head is counted first, and then the head is written again into memory
/// of that size.
struct HeadWriter {
    /// The size, in bytes, of the memory for a head of unknown size.
    private static let room = 1024

    private let memory: UnsafeMutableRawBufferPointer
    /// The size of the head so far, in bytes.
    private var count = 0
    /// The number of the head's bytes that were written into the memory.
    private var written = 0

    /// Returns a buffer with the head that `write` produces, and free space for `more` bytes behind it.
    static func buffer(more: Int, _ write: (inout HeadWriter) -> Void) -> ByteBuffer {
        let (buffer, size) = buffer(room: room, more: more, write)
        return size <= room ? buffer : Self.buffer(room: size, more: more, write).buffer
    }

    private static func buffer(
        room: Int, more: Int, _ write: (inout HeadWriter) -> Void
    ) -> (buffer: ByteBuffer, size: Int) {
        var buffer = ByteBufferAllocator().buffer(capacity: room + more)
        var size = 0
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: room) { memory in
            var writer = HeadWriter(memory: UnsafeMutableRawBufferPointer(rebasing: memory[..<room]))
            write(&writer)
            size = writer.count
            return writer.written
        }
        return (buffer, size)
    }

    /// Writes a text.
    mutating func text(_ text: String) {
        let isWritten: Void? = text.utf8.withContiguousStorageIfAvailable { utf8 in
            if utf8.count <= memory.count - count {
                UnsafeMutableRawBufferPointer(rebasing: memory[count...]).copyMemory(from: UnsafeRawBufferPointer(utf8))
                written += utf8.count
            }
            count += utf8.count
        }
        guard isWritten == nil else { return }
        for byte in text.utf8 { self.byte(byte) }
    }

    /// Writes a field line (RFC 9112 section 5).
    ///
    /// `HTTPField` has checked name and value, so neither of them can end the line.
    mutating func field(_ name: String, _ value: String) {
        text(name)
        byte(UInt8(ascii: ":"))
        byte(UInt8(ascii: " "))
        text(value)
        endLine()
    }

    /// Ends a field line, or the head.
    mutating func endLine() {
        byte(UInt8(ascii: "\r"))
        byte(UInt8(ascii: "\n"))
    }

    private mutating func byte(_ byte: UInt8) {
        if count < memory.count {
            memory[count] = byte
            written += 1
        }
        count += 1
    }
}
