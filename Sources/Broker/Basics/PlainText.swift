/// Checks eight bytes at a time whether a whole text is plain, so that it can be written without escapes.
///
/// Most texts in answers and log lines are plain.
package enum PlainText {
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080

    /// Returns whether a JSON string can hold these UTF-8 bytes unescaped (no control byte, quotation mark or backslash).
    package static func isJSON(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        holds(bytes) { word in below(0x20, word) | equal(0x22, word) | equal(0x5C, word) | equal(0x7F, word) }
    }

    /// Returns whether the bytes are ASCII that may be in a JSON string without an escape.
    package static func isASCIIOfJSON(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        holds(bytes) { word in
            below(0x20, word) | equal(0x22, word) | equal(0x5C, word) | equal(0x7F, word) | word & highs
        }
    }

    /// Returns whether a text is visible ASCII: 0x21 to 0x7E.
    package static func isVisible(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            holds(bytes) { word in below(0x21, word) | equal(0x7F, word) | word & highs }
        }
    }

    /// Returns whether `fault` returns zero for every word of the bytes.
    @inline(__always)
    private static func holds(_ bytes: UnsafeBufferPointer<UInt8>, _ fault: (UInt64) -> UInt64) -> Bool {
        let count = bytes.count
        guard let start = UnsafeRawPointer(bytes.baseAddress) else { return true }
        guard count >= 8 else {
            // Fill the word with the letter `a`, which is plain for every check.
            var word: UInt64 = 0x6161_6161_6161_6161
            for index in 0..<count { word = word << 8 | UInt64(bytes[index]) }
            return fault(word) == 0
        }
        var index = 0
        while index &+ 8 <= count {
            guard fault(start.loadUnaligned(fromByteOffset: index, as: UInt64.self)) == 0 else { return false }
            index &+= 8
        }
        return fault(start.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self)) == 0
    }

    /// Returns a word that is nonzero exactly if a byte of `word` is below a bound of at most 0x80.
    @inline(__always)
    private static func below(_ bound: UInt64, _ word: UInt64) -> UInt64 { (word &- ones &* bound) & ~word & highs }

    /// Returns a word that is nonzero exactly if a byte of `word` equals `byte`.
    @inline(__always)
    private static func equal(_ byte: UInt64, _ word: UInt64) -> UInt64 { below(1, word ^ ones &* byte) }
}
