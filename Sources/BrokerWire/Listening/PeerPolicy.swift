/// What the connections of one address may take together.
package struct PeerPolicy: Sendable, Equatable {
    /// What is counted together: the address, or its network.
    package var key: PeerAddress
    /// Open connections; nil for as many as it wants.
    package var connections: Int?
    /// Open connections until one of them has carried a live session.
    package var anonymousConnections: Int?
    /// Bytes received and not yet answered: undecoded, heads, and bodies of requests without a live session; nil for as
    /// many as it wants.
    package var heldBytes: Int?

    /// Creates a policy that bounds nothing.
    package init(key: PeerAddress) { self.key = key }
}
