/// A claim's name: 16 random bytes, so that who asks again after an answer was lost gets the same claim.
package struct ClaimID: Sendable, Hashable {
    /// The 16 bytes.
    package let bytes: [UInt8]

    /// Creates a name, or nil when there are not exactly 16 bytes.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// Creates a name from random bytes, 16 or more.
    package init(random bytes: [UInt8]) {
        self.bytes = Array(bytes.prefix(16)) + Array(repeating: 0, count: max(0, 16 - bytes.count))
    }
}
