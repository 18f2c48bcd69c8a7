/// The address or network whose addresses share one limit.
package struct LimitedNetwork: Sendable, Hashable {
    package let level: LimitLevel
    /// The first address of the network.
    package let address: IPAddress
    /// The prefix length: the number of leading bits that the network's addresses share.
    package let prefix: Int
}

extension LimitedNetwork: CustomStringConvertible {
    /// The text of an IPv4 address, or of a network with its prefix length.
    package var description: String { address.isIPv4 ? address.description : "\(address)/\(prefix)" }
}
