/// A small gzip stream that unpacks to a very large JSON string, made directly without a compressor.
enum GzipBomb {
    /// A stream that unpacks to 64 MiB, from less than half a MiB.
    static let usual = make(unpacked: 64 << 20)

    /// Makes a stream of about 0.6 % of `unpacked` bytes.
    ///
    /// The checksum is right, so only a size limit can refuse it.
    static func make(unpacked: Int) -> [UInt8] {
        let prefix = Array(#"{"access_token":"a"#.utf8)
        let suffix = Array(#""}"#.utf8)
        let matches = max(1, unpacked / 258)
        var out: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255]
        var bits = BitWriter()
        bits.append(1, count: 1)
        bits.append(1, count: 2)
        for byte in prefix { bits.literal(byte) }
        for _ in 0..<matches {
            bits.huffman(0b1100_0101, count: 8)
            bits.huffman(0, count: 5)
        }
        for byte in suffix { bits.literal(byte) }
        bits.huffman(0, count: 7)
        out += bits.finish()
        var crc = CRC32()
        for byte in prefix { crc.update(byte) }
        crc.update(repeating: UInt8(ascii: "a"), count: matches * 258)
        for byte in suffix { crc.update(byte) }
        out += littleEndian(crc.value)
        out += littleEndian(UInt32(truncatingIfNeeded: prefix.count + matches * 258 + suffix.count))
        return out
    }

    /// Returns the bytes as one uncompressed block of deflate data (RFC 1951 section 3.2.4).
    static func stored(_ bytes: [UInt8]) -> [UInt8] {
        let length = UInt16(truncatingIfNeeded: bytes.count)
        return [1, UInt8(truncatingIfNeeded: length), UInt8(truncatingIfNeeded: length >> 8)]
            + [UInt8(truncatingIfNeeded: ~length), UInt8(truncatingIfNeeded: ~length >> 8)] + bytes
    }

    /// Returns the bytes as one gzip member.
    static func member(_ bytes: [UInt8]) -> [UInt8] {
        var crc = CRC32()
        for byte in bytes { crc.update(byte) }
        return [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255] + stored(bytes) + littleEndian(crc.value)
            + littleEndian(UInt32(truncatingIfNeeded: bytes.count))
    }

    private static func littleEndian(_ value: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * UInt32($0))) }
    }

    private struct BitWriter {
        var bytes: [UInt8] = []
        var current: UInt32 = 0
        var filled: UInt32 = 0

        mutating func append(_ value: UInt32, count: UInt32) {
            current |= value << filled
            filled += count
            while filled >= 8 {
                bytes.append(UInt8(truncatingIfNeeded: current))
                current >>= 8
                filled -= 8
            }
        }

        /// Appends a Huffman code with its most significant bit first (RFC 1951 section 3.1.1).
        mutating func huffman(_ code: UInt32, count: UInt32) {
            var reversed: UInt32 = 0
            for bit in 0..<count where code & (1 << bit) != 0 { reversed |= 1 << (count - 1 - bit) }
            append(reversed, count: count)
        }

        mutating func literal(_ byte: UInt8) { huffman(0x30 + UInt32(byte), count: 8) }

        mutating func finish() -> [UInt8] {
            if filled > 0 { bytes.append(UInt8(truncatingIfNeeded: current)) }
            return bytes
        }
    }

    /// Computes a CRC-32; a long run of equal bytes is handled by squaring the affine map of one byte.
    private struct CRC32 {
        var state: UInt32 = 0xFFFF_FFFF
        var value: UInt32 { ~state }

        static func step(_ state: UInt32, _ byte: UInt8) -> UInt32 {
            var crc = state ^ UInt32(byte)
            for _ in 0..<8 { crc = (crc >> 1) ^ (crc & 1 == 1 ? 0xEDB8_8320 : 0) }
            return crc
        }

        mutating func update(_ byte: UInt8) { state = Self.step(state, byte) }

        mutating func update(repeating byte: UInt8, count: Int) {
            var constant = Self.step(0, byte)
            var columns = (0..<32).map { Self.step(1 << UInt32($0), byte) ^ constant }
            func apply(_ columns: [UInt32], _ vector: UInt32) -> UInt32 {
                var result: UInt32 = 0
                for (bit, column) in columns.enumerated() where vector & (1 << UInt32(bit)) != 0 { result ^= column }
                return result
            }
            var left = count
            while left > 0 {
                if left & 1 == 1 { state = apply(columns, state) ^ constant }
                constant = apply(columns, constant) ^ constant
                columns = columns.map { apply(columns, $0) }
                left >>= 1
            }
        }
    }
}
