/// The size of the network whose addresses share one limit.
///
/// One IPv6 customer has a whole network of addresses, so limits also apply to larger networks. Each size has its own count,
/// and a caller must be within all limits.
package enum LimitLevel: Int, Sendable, CaseIterable {
    /// An IPv4 address, or an IPv6 /64 (one device, or one network behind a router).
    case address
    /// An IPv6 /56, which is the network of one customer's line.
    case customer
    /// An IPv6 /48, which is the largest network that one customer usually has.
    ///
    /// A carrier may serve as many phones from a /48 as from a whole pool of IPv4 addresses.
    case network
}
