import BrokerProviders

extension ProviderHTTP {
    /// Creates the transport of provider calls from the configuration file.
    convenience init(_ settings: OutboundSettings) {
        self.init(
            settings: TransportSettings(
                caFile: settings.caFile, proxy: settings.proxy, allowPrivate: settings.allowPrivate,
                connectTimeout: settings.connectTimeout))
    }
}
