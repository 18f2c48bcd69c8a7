import Broker
import BrokerProviders
import BrokerRelay
import BrokerWire
import Foundation
import NIOSSL

extension RelayOutbound {
    /// Makes the relay's outbound settings from the configuration file.
    init(_ settings: TransportSettings) {
        self.init(connectTimeout: settings.connectTimeout)
        if let file = settings.caFile {
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.minimumTLSVersion = .tlsv12
            configuration.additionalTrustRoots = [.file(file)]
            tls = configuration
        }
        if let own = settings.proxy {
            let credentials = own.credentials.map { "Basic " + Data($0.bytes()).base64EncodedString() }
            proxy = UpstreamTarget.Proxy(host: own.host, port: own.port, credentials: credentials)
        }
    }
}
