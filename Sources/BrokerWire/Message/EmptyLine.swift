import NIOCore

/// Finds the empty line that ends a head or a body's trailers, in input that arrives in pieces.
///
/// The bytes behind the empty line must not reach the head's parser, because they may be a chunked body.
struct EmptyLine {
    /// The number of bytes of CRLF CRLF that match the end of the input so far (0 to 3).
    private var matched: Int

    /// Creates the search.
    ///
    /// `behindLine` is true if a line has just ended.
    init(behindLine: Bool = false) { matched = behindLine ? 2 : 0 }

    /// Returns the number of bytes up to and including the empty line; nil if the first `length` bytes of the input do not
    /// contain its end.
    ///
    /// Each call continues the search of the previous call, so `input` must begin after the bytes of that call.
    mutating func end(in input: ByteBuffer, upTo length: Int) -> Int? {
        input.withUnsafeReadableBytes { end(in: UnsafeRawBufferPointer(rebasing: $0.prefix(length))) }
    }

    private mutating func end(in bytes: UnsafeRawBufferPointer) -> Int? {
        guard let start = bytes.baseAddress else { return nil }
        let count = bytes.count
        var (index, seen) = (0, matched)
        defer { matched = seen }
        while index < count {
            // Most bytes of a head are within lines, so sixteen are checked together, then eight.
            if seen == 0 {
                while index &+ 16 <= count, Self.ends(start, index) | Self.ends(start, index &+ 8) == 0 { index &+= 16 }
                if index &+ 8 <= count {
                    let ends = Self.ends(start, index)
                    guard ends != 0 else {
                        index &+= 8
                        continue
                    }
                    index &+= ends.trailingZeroBitCount &>> 3
                }
                guard index < count else { break }
                // A single line end, which is the usual case.
                if index &+ 4 <= count {
                    let word = UInt32(littleEndian: start.loadUnaligned(fromByteOffset: index, as: UInt32.self))
                    if word == 0x0A0D_0A0D { return index &+ 4 }
                    if word & 0xFFFF == 0x0A0D, word & 0xFF0000 != 0x0D0000 {
                        index &+= 2
                        continue
                    }
                }
            }
            let byte = start.load(fromByteOffset: index, as: UInt8.self)
            index &+= 1
            guard byte == (seen & 1 == 0 ? 0x0D : 0x0A) else {
                seen = byte == 0x0D ? 1 : 0
                continue
            }
            seen &+= 1
            if seen == 4 {
                seen = 0
                return index
            }
        }
        return nil
    }

    /// Returns a word whose lowest set bit marks the first of eight bytes that may end a line (a byte below 0x0E).
    @inline(__always)
    private static func ends(_ start: UnsafeRawPointer, _ index: Int) -> UInt64 {
        let word = UInt64(littleEndian: start.loadUnaligned(fromByteOffset: index, as: UInt64.self))
        return (word &- 0x0E0E_0E0E_0E0E_0E0E) & ~word & 0x8080_8080_8080_8080
    }
}
