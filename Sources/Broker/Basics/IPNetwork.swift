/// A range of addresses of one family (`10.0.0.0/8`, `fd00::/8`), or a single address.
package struct IPNetwork: Sendable, Hashable, CustomStringConvertible {
    private let first: IPAddress
    /// The prefix length: the number of leading bits that all addresses of the range share, in the 128-bit form.
    private let bits: Int

    /// Creates the range of all addresses that share their first `prefixLength` bits with `address`.
    package init(_ address: IPAddress, prefixLength: Int) {
        bits = min(max(address.isIPv4 ? prefixLength + 96 : prefixLength, 0), 128)
        first = IPAddress(
            high: address.high & Self.mask(min(bits, 64)), low: address.low & Self.mask(max(bits - 64, 0)))
    }

    /// Parses a range in CIDR notation or a single address, or returns nil for any other text.
    ///
    /// Bits beyond the prefix must be zero, because `10.1.2.3/8` is probably a mistake.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let part = parts.first, let address = IPAddress(part) else { return nil }
        // If an IPv4 address is written in IPv6 notation, its prefix counts from the first of 128 bits.
        let offset = address.isIPv4 && part.contains(":") ? 96 : 0
        var length = address.isIPv4 ? 32 : 128
        if parts.count == 2 {
            guard let digits = parts.last, (1...3).contains(digits.utf8.count),
                digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), digits == "0" || digits.utf8.first != 0x30,
                let given = Int(digits), (0...length).contains(given - offset)
            else { return nil }
            length = given - offset
        }
        self.init(address, prefixLength: length)
        guard first == address else { return nil }
    }

    /// Whether a translator can have the range: an IPv6 range with a prefix of 96 bits, which one IPv4 address follows.
    package var isTranslators: Bool { !isIPv4 && prefixLength == 96 }

    /// Whether the range is the whole address space of one family.
    package var isEverything: Bool { prefixLength == 0 }

    /// Returns whether the address is in the range; false for an address of the other family.
    package func contains(_ address: IPAddress) -> Bool {
        let differing = (high: address.high ^ first.high, low: address.low ^ first.low)
        return differing.high & Self.mask(min(bits, 64)) == 0 && differing.low & Self.mask(max(bits - 64, 0)) == 0
            && address.isIPv4 == isIPv4
    }

    /// The range in CIDR notation; a single address without its prefix.
    package var description: String { bits == 128 ? "\(first)" : "\(first)/\(prefixLength)" }

    private var isIPv4: Bool { first.isIPv4 && bits >= 96 }

    private var prefixLength: Int { isIPv4 ? bits - 96 : bits }

    /// Returns a mask of the first `bits` of 64 bits.
    private static func mask(_ bits: Int) -> UInt64 {
        // A shift by all 64 bits gives 0 here, because Swift's `<<` is a smart shift.
        ~0 << UInt64(64 - bits)
    }
}

extension IPAddress {
    /// The address by which limits identify a client; an IPv6 client has a whole /64, so its first address is used.
    package var limitKey: IPAddress { isIPv4 ? self : IPAddress(high: high, low: 0) }

    /// The networks with limits that contain the address, smallest first; for IPv4, only the address itself.
    package var limitedNetworks: [LimitedNetwork] {
        if isIPv4 { return [LimitedNetwork(level: .address, address: self, prefix: 32)] }
        return [
            LimitedNetwork(level: .address, address: limitKey, prefix: 64),
            LimitedNetwork(level: .customer, address: IPAddress(high: high & ~0xFF, low: 0), prefix: 56),
            LimitedNetwork(level: .network, address: IPAddress(high: high & ~0xFFFF, low: 0), prefix: 48),
        ]
    }
}
