/// A range of addresses of one family (`10.0.0.0/8`, `fd00::/8`), or one address.
package struct IPNetwork: Sendable, Hashable, CustomStringConvertible {
    private let first: IPAddress
    /// The number of leading bits that count, of the 128 of the mapped form.
    private let bits: Int

    /// Creates the range of all addresses that share their first `prefixLength` bits with `address`.
    package init(_ address: IPAddress, prefixLength: Int) {
        bits = min(max(address.isIPv4 ? prefixLength + 96 : prefixLength, 0), 128)
        first = IPAddress(
            high: address.high & Self.mask(min(bits, 64)), low: address.low & Self.mask(max(bits - 64, 0)))
    }

    /// Parses a range in CIDR notation or a single address, or returns nil when it is neither.
    ///
    /// Bits beyond the prefix have to be zero: `10.1.2.3/8` is somebody's mistake.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let part = parts.first, let address = IPAddress(part) else { return nil }
        // An IPv4 address in IPv6 notation has its prefix counted in that notation.
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

    /// Whether it is as a translator's: IPv6, with room for one IPv4 address behind its 96 bits.
    package var isTranslators: Bool { !isIPv4 && prefixLength == 96 }

    /// Whether it is one family's whole address space.
    package var isEverything: Bool { prefixLength == 0 }

    /// Returns whether the address is in the range; none of the other family is.
    package func contains(_ address: IPAddress) -> Bool {
        let differing = (high: address.high ^ first.high, low: address.low ^ first.low)
        return differing.high & Self.mask(min(bits, 64)) == 0 && differing.low & Self.mask(max(bits - 64, 0)) == 0
            && address.isIPv4 == isIPv4
    }

    /// The range in CIDR notation; a single address without its prefix.
    package var description: String { bits == 128 ? "\(first)" : "\(first)/\(prefixLength)" }

    private var isIPv4: Bool { first.isIPv4 && bits >= 96 }

    private var prefixLength: Int { isIPv4 ? bits - 96 : bits }

    /// The first `bits` of 64 bits.
    private static func mask(_ bits: Int) -> UInt64 {
        // A shift by all 64 bits gives 0 here: Swift's `<<` does not trap on it.
        ~0 << UInt64(64 - bits)
    }
}

/// The width of a limit beyond one address: in IPv6 one customer has a whole network of them.
///
/// Each level is counted by itself, and a caller has to be within all of them.
package enum LimitLevel: Int, Sendable, CaseIterable {
    /// An IPv4 address, or an IPv6 /64: one device, or one network behind a router.
    case address
    /// An IPv6 /56: what one customer's line has.
    case customer
    /// An IPv6 /48: the most that one customer usually has. A carrier has as many phones in one as another has in a pool
    /// of IPv4 addresses.
    case network
}

/// The unit that limits count: an address, or the network that it is in.
package struct LimitedNetwork: Sendable, Hashable {
    package let level: LimitLevel
    /// Its first address.
    package let address: IPAddress
    /// The number of bits that its addresses have in common.
    package let prefix: Int
}

extension IPAddress {
    /// The address that limits count by: an IPv6 client owns its whole /64.
    package var limitKey: IPAddress { isIPv4 ? self : IPAddress(high: high, low: 0) }

    /// The networks that limits count it in, the narrowest first; an IPv4 address is in nothing wider than itself.
    package var limitedNetworks: [LimitedNetwork] {
        if isIPv4 { return [LimitedNetwork(level: .address, address: self, prefix: 32)] }
        return [
            LimitedNetwork(level: .address, address: limitKey, prefix: 64),
            LimitedNetwork(level: .customer, address: IPAddress(high: high & ~0xFF, low: 0), prefix: 56),
            LimitedNetwork(level: .network, address: IPAddress(high: high & ~0xFFFF, low: 0), prefix: 48),
        ]
    }
}

extension LimitedNetwork: CustomStringConvertible {
    /// An IPv4 address as it is, a network with its length.
    package var description: String { address.isIPv4 ? address.description : "\(address)/\(prefix)" }
}
