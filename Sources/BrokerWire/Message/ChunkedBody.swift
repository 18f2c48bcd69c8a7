import NIOCore

/// Decodes the chunked coding of a body as it arrives (RFC 9112 section 7.1), and merges small chunks into larger pieces.
///
/// A chunk of one byte costs a parser as much as a chunk of a kilobyte, and the sender chooses the number of chunks. Therefore
/// this type reports pieces instead of chunks.
///
/// The coding is read strictly: lines end with CRLF, and a size has only digits. If two programs found different ends of a
/// body, one of them would find a second request in it.
struct ChunkedBody {
    /// The result of reading the next part of the input.
    enum Step: Equatable {
        /// A part of the body.
        case piece(ByteBuffer)
        /// The input ends before the next piece is complete.
        case needsMore
        /// The last chunk's line was read.
        ///
        /// Trailers and an empty line follow.
        case last
        case malformed
    }

    private enum Place { case size, parameters, sizeEnd, data, dataEnd, lineEnd, over, broken }

    /// The smallest chunk, in bytes, that is passed on without copying.
    private static let long = 1024
    /// The longest chunk-size line, in bytes, without its end.
    private static let longestLine = 1024
    /// The largest number of digits of a chunk's size.
    private static let longestSize = 16

    private var place = Place.size
    /// The number of the current chunk's bytes that have not arrived; within a size line, the size read so far.
    private var left = 0
    /// The number of bytes of the current line that were read.
    private var line = 0

    /// Removes the next piece from the front of the input.
    mutating func next(_ input: inout ByteBuffer) -> Step {
        switch place {
        case .over: return .last
        case .broken: return .malformed
        case .data where min(left, input.readableBytes) >= Self.long: return slice(of: &input)
        default: break
        }
        let count = input.readableBytes
        let (taken, merged) = input.withUnsafeReadableBytes { bytes in
            withUnsafeTemporaryAllocation(byteCount: count, alignment: 1) { room in
                let (taken, length) = take(bytes, into: room)
                return (taken, ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: room[..<length])))
            }
        }
        input.moveReaderIndex(forwardBy: taken)
        if merged.readableBytes > 0 { return .piece(merged) }
        switch place {
        case .over: return .last
        case .broken: return .malformed
        case .data where input.readableBytes > 0: return slice(of: &input)
        default: return .needsMore
        }
    }

    /// Returns the received part of a long chunk without copying it.
    private mutating func slice(of input: inout ByteBuffer) -> Step {
        guard let slice = input.readSlice(length: min(left, input.readableBytes)) else { return .needsMore }
        took(slice.readableBytes)
        return .piece(slice)
    }

    private mutating func took(_ bytes: Int) {
        left -= bytes
        if left == 0 { place = .dataEnd }
    }

    /// Reads until one of these is reached: the input's end; the end of the last chunk's line; a fault; or at least `long`
    /// bytes of one chunk's data.
    ///
    /// Shorter data is copied into `room`. Returns the number of bytes read and the number copied.
    private mutating func take(
        _ bytes: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer
    ) -> (taken: Int, copied: Int) {
        var index = 0
        var copied = 0
        while index < bytes.count {
            if place == .data {
                let run = min(left, bytes.count - index)
                guard run < Self.long else { break }
                UnsafeMutableRawBufferPointer(rebasing: room[copied..<(copied + run)])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[index..<(index + run)]))
                copied += run
                index += run
                took(run)
                continue
            }
            // Leave the faulty byte in the input. The caller asks for the next step only while there is input, and then gets
            // `malformed`.
            guard read(bytes[index]) else {
                place = .broken
                break
            }
            index += 1
            if place == .over { break }
        }
        return (index, copied)
    }

    /// Reads a byte of the coding; returns false if the byte is not allowed there.
    private mutating func read(_ byte: UInt8) -> Bool {
        switch place {
        case .size:
            if let digit = Self.digit(byte) {
                line += 1
                guard line <= Self.longestSize, left <= Int.max >> 4 else { return false }
                left = left << 4 | digit
                return true
            }
            guard line > 0 else { return false }
            return endSize(byte)
        case .parameters: return endSize(byte)
        case .sizeEnd:
            line = 0
            place = left > 0 ? .data : .over
            return byte == UInt8(ascii: "\n")
        case .dataEnd:
            place = .lineEnd
            return byte == UInt8(ascii: "\r")
        case .lineEnd:
            place = .size
            return byte == UInt8(ascii: "\n")
        case .data, .over, .broken: return false
        }
    }

    /// Reads a byte between a chunk's size and the end of its line.
    ///
    /// Chunk extensions are ignored, but a control character in them is a fault.
    private mutating func endSize(_ byte: UInt8) -> Bool {
        if byte == UInt8(ascii: "\r") {
            place = .sizeEnd
            return true
        }
        line += 1
        guard place == .parameters || byte == UInt8(ascii: ";"), line <= Self.longestLine else { return false }
        place = .parameters
        return byte == 0x09 || (byte >= 0x20 && byte != 0x7F)
    }

    private static func digit(_ byte: UInt8) -> Int? {
        switch byte {
        case 0x30...0x39: Int(byte) - 0x30
        case 0x41...0x46: Int(byte) - 0x37
        case 0x61...0x66: Int(byte) - 0x57
        default: nil
        }
    }
}

extension ByteBuffer {
    /// The bytes in a smaller buffer if possible, because a few bytes of a large buffer keep all of its memory allocated.
    var compact: ByteBuffer {
        readableBytes * 4 < storageCapacity ? ByteBuffer(bytes: readableBytesView) : self
    }
}
