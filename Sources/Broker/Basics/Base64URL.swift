/// Encodes and decodes base64url without padding (RFC 4648 section 5).
package enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    private static let values: [UInt8] = {
        var table = [UInt8](repeating: 255, count: 256)
        for (index, character) in alphabet.enumerated() { table[Int(character)] = UInt8(index) }
        return table
    }()

    /// Returns the bytes as unpadded base64url text.
    ///
    /// The parameter has a concrete type, because a generic function would be slow: another module would call it through a
    /// witness table for each byte.
    package static func encode(_ bytes: [UInt8]) -> String {
        let count = (bytes.count * 4 + 2) / 3
        return alphabet.withUnsafeBufferPointer { alphabet in
            String(unsafeUninitializedCapacity: count) { text in
                var buffer: UInt32 = 0
                var bits: UInt32 = 0
                var written = 0
                for byte in bytes {
                    buffer = (buffer << 8 | UInt32(byte)) & 0xFFFF
                    bits += 8
                    while bits >= 6 {
                        bits -= 6
                        text[written] = alphabet[Int(buffer >> bits & 63)]
                        written += 1
                    }
                }
                if bits > 0 {
                    text[written] = alphabet[Int(buffer << (6 - bits) & 63)]
                    written += 1
                }
                return written
            }
        }
    }

    /// Returns the bytes of any sequence as text.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String { encode(Array(bytes)) }

    /// Returns the decoded bytes; nil for padding, any other character, an impossible length, or unused low bits other than
    /// zero.
    package static func decode(_ text: String) -> [UInt8]? {
        text.utf8.withContiguousStorageIfAvailable { decoded($0) } ?? decode(Array(text.utf8)[...])
    }

    /// Decodes a text that is given as a slice of its bytes; nil if the text is malformed.
    package static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        text.withUnsafeBufferPointer { decoded($0) }
    }

    /// Decodes a part of a text; nil if the part is malformed.
    package static func decode(_ text: Substring) -> [UInt8]? { decode(Array(text.utf8)[...]) }

    private static func decoded(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        var isSound = false
        let bytes = values.withUnsafeBufferPointer { values in
            [UInt8](unsafeUninitializedCapacity: text.count * 3 / 4) { bytes, written in
                var buffer: UInt32 = 0
                var bits: UInt32 = 0
                for character in text {
                    let value = values[Int(character)]
                    guard value < 64 else { return }
                    buffer = (buffer << 6 | UInt32(value)) & 0xFFFF
                    bits += 6
                    if bits >= 8 {
                        bits -= 8
                        bytes[written] = UInt8(truncatingIfNeeded: buffer >> bits)
                        written += 1
                    }
                }
                // A canonical text leaves fewer than six unused bits, and all of them are zero.
                isSound = bits < 6 && buffer & ((1 << bits) - 1) == 0
            }
        }
        return isSound ? bytes : nil
    }

    /// Returns whether the text has only base64url characters, and a length in `range`.
    package static func isToken(_ text: String, length range: ClosedRange<Int>) -> Bool {
        let values = values
        guard range.contains(text.utf8.count) else { return false }
        return text.utf8.withContiguousStorageIfAvailable { $0.allSatisfy { values[Int($0)] < 64 } }
            ?? text.utf8.allSatisfy { values[Int($0)] < 64 }
    }
}
