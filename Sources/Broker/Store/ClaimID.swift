/// The random name of a claim, 16 bytes.
///
/// A retry after a lost answer has the same name, and gets the same claim.
package struct ClaimID: Sendable, Hashable {
    /// The name's 16 bytes.
    package let bytes: [UInt8]

    /// Creates a name; nil unless there are exactly 16 bytes.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// Creates a name from random bytes, 16 or more.
    package init(random bytes: [UInt8]) {
        self.bytes = Array(bytes.prefix(16)) + Array(repeating: 0, count: max(0, 16 - bytes.count))
    }
}
