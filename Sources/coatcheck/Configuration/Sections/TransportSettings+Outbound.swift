import Broker
import BrokerProviders

extension TransportSettings {
    /// Reads the settings of calls to providers and upstreams (`outbound`).
    init(_ section: ConfigSection) {
        let file = section.readableFile("ca_file")
        // Check the file now, because with a file that OpenSSL cannot read, every TLS connection would fail.
        if let file, TrustRoots(pem: file.bytes) == nil {
            section.report("ca_file", "names a file without a PEM certificate")
        }
        self.init(caFile: file?.path)
        allowPrivate = section.flag("allow_private", default: allowPrivate)
        connectTimeout = section.duration(
            "connect_timeout", default: connectTimeout, in: .milliseconds(100) ... .seconds(10))
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
