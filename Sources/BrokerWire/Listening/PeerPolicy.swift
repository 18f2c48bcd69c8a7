/// What the connections of one address, or of one network, may take together.
package struct PeerPolicy: Sendable, Equatable {
    /// What is counted together.
    package struct Key: Sendable, Hashable {
        /// The address, or the first one of the network.
        package let address: PeerAddress
        /// How many bits its addresses have in common.
        package let prefix: Int

        package init(_ address: PeerAddress, prefix: Int = 128) {
            self.address = address
            self.prefix = prefix
        }
    }

    package let key: Key
    /// Open connections; nil for as many as it wants.
    package var connections: Int?
    /// Open connections until one of them has carried a live session.
    package var anonymousConnections: Int?
    /// Bytes received and not yet answered: undecoded, heads, and bodies of requests without a live session; nil for as
    /// many as it wants.
    package var heldBytes: Int?

    /// Creates a policy that bounds nothing.
    package init(key: Key) { self.key = key }
}
