import Broker
package import BrokerWire

extension PeerPolicy {
    /// Returns what one address may take of a listener for apps and backends (SEC-105).
    ///
    /// Trusted proxies speak for everybody behind them: they have as many connections as they want, and more bytes.
    /// Loopback peers are not limited in development.
    package static func each(_ configuration: HTTPConfiguration) -> @Sendable (PeerAddress) -> PeerPolicy {
        let isDevelopment = PublicName(configuration).isLoopback
        let trusted = configuration.trustedProxies
        let limits = configuration.limits
        return { peer in
            let address = IPAddress(high: peer.high, low: peer.low)
            var policy = PeerPolicy(key: peer)
            guard !(isDevelopment && address.isLoopback) else { return policy }
            guard !trusted.contains(where: { $0.contains(address) }) else {
                policy.heldBytes = limits.heldBytesOfProxy
                return policy
            }
            let key = address.limitKey
            policy.key = PeerAddress(high: key.high, low: key.low)
            policy.connections = limits.connectionsPerAddress
            policy.anonymousConnections = min(limits.anonymousConnectionsPerAddress, limits.connectionsPerAddress)
            policy.heldBytes = limits.heldBytesPerAddress
            return policy
        }
    }
}

extension PeerLedger {
    /// Makes a ledger with the policy of one configuration.
    package convenience init(_ configuration: HTTPConfiguration) { self.init(policy: PeerPolicy.each(configuration)) }
}
