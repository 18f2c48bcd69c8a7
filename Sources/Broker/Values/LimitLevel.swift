/// How far limits look beyond one address: in IPv6 one customer has a whole network of them.
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

/// What limits count as one: an address, or the network that it is in.
package struct LimitedNetwork: Sendable, Hashable {
    package let level: LimitLevel
    /// Its first address.
    package let address: IPAddress
    /// How many bits its addresses have in common.
    package let prefix: Int
}

extension IPAddress {
    /// The address that limits count by: an IPv6 client owns its whole /64.
    package var limitKey: IPAddress { isIPv4 ? self : IPAddress(high: high, low: 0) }

    /// What limits count it in, the narrowest first; an IPv4 address is in nothing wider than itself.
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
