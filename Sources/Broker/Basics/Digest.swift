/// A 32-byte SHA-256 or HMAC-SHA-256 value, used as the key of a row.
///
/// A digest is safe to store, because it is useless as a credential. The four words are stored inline, because a cached session
/// holds seven digests.
package struct Digest: Sendable, Hashable {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Creates a digest, or returns nil unless there are exactly 32 bytes.
    package init?(_ bytes: [UInt8]) {
        guard let digest = bytes.withUnsafeBytes({ Digest($0) }) else { return nil }
        self = digest
    }

    /// Creates a digest from bytes in memory, or returns nil unless there are exactly 32 bytes.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 32 else { return nil }
        func word(_ start: Int) -> UInt64 {
            UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt64.self))
        }
        words = (word(0), word(8), word(16), word(24))
    }

    /// The 32 bytes.
    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32)
        for word in [words.0, words.1, words.2, words.3] {
            for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: word >> shift)) }
        }
        return bytes
    }

    /// Compares in constant time (SEC-53).
    package static func == (left: Digest, right: Digest) -> Bool {
        let difference =
            (left.words.0 ^ right.words.0) | (left.words.1 ^ right.words.1) | (left.words.2 ^ right.words.2)
            | (left.words.3 ^ right.words.3)
        return difference == 0
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
        hasher.combine(words.2)
        hasher.combine(words.3)
    }
}
