import BrokerRelay

extension RelayOutbound {
    /// Makes the relay's way out from the configuration file.
    init(_ settings: OutboundSettings) {
        self.init()
    }
}
