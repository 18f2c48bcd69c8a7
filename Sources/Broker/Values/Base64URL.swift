/// Encodes and decodes base64url without padding (RFC 4648 section 5).
package enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    private static let values: [UInt8] = {
        var table = [UInt8](repeating: 255, count: 256)
        for (index, character) in alphabet.enumerated() { table[Int(character)] = UInt8(index) }
        return table
    }()

    /// Returns the bytes as unpadded base64url text.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let alphabet = alphabet
        var text: [UInt8] = []
        text.reserveCapacity((bytes.underestimatedCount * 4 + 2) / 3)
        var buffer: UInt32 = 0
        var bits: UInt32 = 0
        for byte in bytes {
            buffer = (buffer << 8 | UInt32(byte)) & 0xFFFF
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(alphabet[Int(buffer >> bits & 63)])
            }
        }
        if bits > 0 { text.append(alphabet[Int(buffer << (6 - bits) & 63)]) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns the bytes, or nil for padding, a foreign character, an impossible length or stray low bits.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? { decode(text.utf8) }

    /// Returns the bytes of a text that is given as its own bytes; nil as above.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        let values = values
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count * 3 / 4)
        var buffer: UInt32 = 0
        var bits: UInt32 = 0
        for character in text {
            let value = values[Int(character)]
            guard value < 64 else { return nil }
            buffer = (buffer << 6 | UInt32(value)) & 0xFFFF
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: buffer >> bits))
            }
        }
        // A canonical text leaves fewer than six bits, all of them zero.
        guard bits < 6, buffer & ((1 << bits) - 1) == 0 else { return nil }
        return bytes
    }

    /// Returns whether the text has only base64url characters and between `range` of them.
    package static func isToken(_ text: String, length range: ClosedRange<Int>) -> Bool {
        let values = values
        guard range.contains(text.utf8.count) else { return false }
        return text.utf8.withContiguousStorageIfAvailable { $0.allSatisfy { values[Int($0)] < 64 } }
            ?? text.utf8.allSatisfy { values[Int($0)] < 64 }
    }
}
