/// A range of IP addresses: one address, or an address and a prefix length (`10.0.0.0/8`, `fd00::/8`).
struct AddressRange: Sendable, Hashable, CustomStringConvertible {
    /// The address's bytes, 4 or 16.
    let bytes: [UInt8]
    /// How many of its leading bits count.
    let prefix: Int
    let description: String

    /// Parses a range, or returns nil when it is none.
    ///
    /// Bits beyond the prefix have to be zero.
    init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard let first = parts.first, parts.count <= 2, let bytes = IPAddressText.parse(String(first)) else {
            return nil
        }
        let bits = bytes.count * 8
        guard let prefix = parts.count == 2 ? UInt8(parts[1]).map(Int.init) : bits, prefix <= bits else { return nil }
        for (index, byte) in bytes.enumerated() {
            let kept = min(8, max(0, prefix - index * 8))
            guard byte & UInt8(truncatingIfNeeded: 0xFF >> kept) == 0 else { return nil }
        }
        self.bytes = bytes
        self.prefix = prefix
        description = text
    }
}
