import Broker
import BrokerProviders

extension ProviderHTTP {
    /// Creates the transport of provider calls from the configuration file; `traces` begins the spans of calls that no
    /// request wanted.
    convenience init(_ settings: OutboundSettings, traces: TraceStarter? = nil) {
        self.init(
            settings: TransportSettings(
                caFile: settings.caFile, proxy: settings.proxy, allowPrivate: settings.allowPrivate,
                connectTimeout: settings.connectTimeout), traces: traces)
    }
}
