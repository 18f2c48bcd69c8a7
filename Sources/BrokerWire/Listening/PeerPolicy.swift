/// The limits on the connections of one address or one network together.
package struct PeerPolicy: Sendable, Equatable {
    /// The address, or the network, whose connections are counted together.
    package struct Key: Sendable, Hashable {
        /// The address, or the network's first address.
        package let address: PeerAddress
        /// The prefix length: the number of leading bits that all addresses of the network share.
        package let prefix: Int

        package init(_ address: PeerAddress, prefix: Int = 128) {
            self.address = address
            self.prefix = prefix
        }
    }

    package let key: Key
    /// The highest number of open connections; nil means unlimited.
    package var connections: Int?
    /// The highest number of open connections until one of them has carried a live session; nil if `connections` applies.
    package var anonymousConnections: Int?
    /// The largest number of bytes that are received and still unanswered; nil means unlimited.
    ///
    /// Undecoded bytes, heads, and the bodies of requests without a live session count towards this limit.
    package var heldBytes: Int?

    /// Creates a policy without limits.
    package init(key: Key) { self.key = key }
}
