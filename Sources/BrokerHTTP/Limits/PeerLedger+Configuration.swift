import Broker
package import BrokerWire

extension PeerPolicy {
    /// Returns the limits of one address and its networks on a listener for apps and backends (SEC-105).
    ///
    /// An address or network has at most a quarter of the connections that all listeners may have together (`all`; nil for no
    /// such limit). A trusted proxy represents all clients behind it, so its connections are unlimited and it may send more
    /// bytes. In development, loopback peers are unlimited.
    package static func each(
        _ configuration: HTTPConfiguration, ofAll all: Int? = nil
    ) -> @Sendable (PeerAddress) -> [PeerPolicy] {
        let isDevelopment = PublicName(configuration).isLoopback
        let trusted = configuration.trustedProxies
        let translators = configuration.translators
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
            return translators.client(address).limitedNetworks.map { network in
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
            self.connections = Self.shares(connections, line: 4, quarter)
            // Connections are anonymous until they carry a live session. By default, an address may have 128 of them, a line
            // 384 and a network 896. A TLS connection with its body takes up to 140 KiB, so a line takes at most 64 MiB, and
            // a network at most 128 MiB.
            let ofNetwork = min(Self.times(7, anonymous), quarter)
            anonymousConnections = Self.shares(anonymous, line: 3, ofNetwork)
            let bytes = limits.heldBytesPerAddress
            heldBytes = LimitShares(address: bytes, customer: Self.times(2, bytes), network: Self.times(4, bytes))
        }

        /// Returns the limits for an address, for a customer's line (`line` times as much), and for a network (at most
        /// `network`).
        private static func shares(_ address: Int, line: Int, _ network: Int) -> LimitShares {
            LimitShares(address: min(address, network), customer: min(times(line, address), network), network: network)
        }

        private static func times(_ factor: Int, _ count: Int) -> Int {
            let (product, overflow) = count.multipliedReportingOverflow(by: factor)
            return overflow ? .max : product
        }
    }
}

extension PeerLedger {
    /// Makes a ledger with the policies of one configuration.
    package convenience init(_ configuration: HTTPConfiguration) {
        self.init(policies: PeerPolicy.each(configuration))
    }
}
