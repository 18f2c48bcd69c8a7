import Broker
package import BrokerWire

extension PeerPolicy {
    /// Returns what one address and its networks may take of a listener for apps and backends (SEC-105).
    ///
    /// Nobody has more than a quarter of the connections that all listeners may have together (`all`; nil for no such
    /// bound). Trusted proxies speak for everybody behind them: they have as many connections as they want, and more
    /// bytes. Loopback peers are not limited in development.
    package static func each(
        _ configuration: HTTPConfiguration, ofAll all: Int? = nil
    ) -> @Sendable (PeerAddress) -> [PeerPolicy] {
        let isDevelopment = PublicName(configuration).isLoopback
        let trusted = configuration.trustedProxies
        let shares = Shares(configuration.limits, ofAll: all)
        let proxyBytes = configuration.limits.heldBytesOfProxy
        return { peer in
            let address = IPAddress(high: peer.high, low: peer.low)
            guard !(isDevelopment && address.isLoopback) else { return [PeerPolicy(key: Key(peer))] }
            guard !trusted.contains(where: { $0.contains(address) }) else {
                var policy = PeerPolicy(key: Key(peer))
                policy.heldBytes = proxyBytes
                return [policy]
            }
            return address.limitedNetworks.map { network in
                let first = PeerAddress(high: network.address.high, low: network.address.low)
                var policy = PeerPolicy(key: Key(first, prefix: network.prefix))
                policy.connections = shares.connections[network.level]
                policy.anonymousConnections = shares.anonymousConnections[network.level]
                policy.heldBytes = shares.heldBytes[network.level]
                return policy
            }
        }
    }

    private struct Shares {
        let connections: LimitShares
        let anonymousConnections: LimitShares
        let heldBytes: LimitShares

        init(_ limits: HTTPLimits, ofAll all: Int?) {
            let quarter = all.map { max($0 / 4, 1) } ?? .max
            let connections = min(limits.connectionsPerAddress, quarter)
            let anonymous = min(limits.anonymousConnectionsPerAddress, connections)
            self.connections = Self.shares(connections, quarter)
            anonymousConnections = Self.shares(anonymous, quarter)
            heldBytes = LimitShares(
                address: limits.heldBytesPerAddress, customer: 4 * limits.heldBytesPerAddress,
                network: limits.heldBytesOfProxy)
        }

        /// Four times as many for a line, and a quarter of all for a network.
        private static func shares(_ address: Int, _ quarter: Int) -> LimitShares {
            let (four, overflow) = address.multipliedReportingOverflow(by: 4)
            return LimitShares(address: address, customer: min(overflow ? .max : four, quarter), network: quarter)
        }
    }
}

extension PeerLedger {
    /// Makes a ledger with the policies of one configuration.
    package convenience init(_ configuration: HTTPConfiguration) {
        self.init(policies: PeerPolicy.each(configuration))
    }
}
