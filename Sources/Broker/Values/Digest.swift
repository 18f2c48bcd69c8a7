/// A 32-byte SHA-256 or HMAC-SHA-256 value: the key of a row.
///
/// Safe to store; useless to present.
package struct Digest: Sendable, Hashable {
    /// The 32 bytes.
    package let bytes: [UInt8]

    /// Creates a digest, or nil when there are not exactly 32 bytes.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        self.bytes = bytes
    }

    /// Compares in constant time (SEC-53).
    package static func == (left: Digest, right: Digest) -> Bool {
        var difference: UInt8 = 0
        for (a, b) in zip(left.bytes, right.bytes) { difference |= a ^ b }
        return difference == 0
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}
