import Broker
import BrokerProviders
import BrokerRelay

/// How the broker reaches providers and upstreams (`outbound`).
struct OutboundSettings: Sendable {
    /// A PEM file of certificates trusted beside the system's, resolved.
    let caFile: String?
    let proxy: TransportSettings.Proxy?
    /// Whether every provider may be at a private address.
    let allowPrivate: Bool
    let connectTimeout: Duration

    init(_ section: ConfigSection) {
        let file = section.readableFile("ca_file")
        if let file, !String(decoding: file.bytes, as: UTF8.self).contains("-----BEGIN CERTIFICATE-----") {
            section.report("ca_file", "names a file without a PEM certificate")
        }
        caFile = file?.path
        allowPrivate = section.flag("allow_private", default: false)
        connectTimeout = section.duration(
            "connect_timeout", default: .seconds(5), in: .milliseconds(100) ... .seconds(10))
        let credentials = section.secret("proxy_credentials")
        if section.has("proxy_credentials"), !section.has("proxy") {
            section.report("proxy_credentials", "needs `proxy`")
        }
        proxy = section.text("proxy", limit: 2048).flatMap { text in
            guard let url = WebURL(text), !url.isSecure, let port = url.port, url.path.isEmpty else {
                section.report("proxy", "has to be `http://host:port`, without user name and path")
                return nil
            }
            return TransportSettings.Proxy(host: url.host, port: port, credentials: credentials)
        }
    }
}
