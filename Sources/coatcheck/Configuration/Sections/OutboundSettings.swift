/// Is how the broker reaches providers and upstreams (`outbound`).
struct OutboundSettings: Sendable {
    /// Certificates trusted beside the system's, in PEM.
    let certificates: [UInt8]?
    /// An HTTP proxy for all calls.
    let proxy: Proxy?

    /// Is an HTTP proxy's address.
    struct Proxy: Sendable, Hashable {
        let host: String
        let port: Int
    }

    init(_ section: ConfigSection) {
        let file = section.readableFile("ca_file")
        if let file, !String(decoding: file.bytes, as: UTF8.self).contains("-----BEGIN CERTIFICATE-----") {
            section.report("ca_file", "names a file without a PEM certificate")
        }
        certificates = file?.bytes
        guard let text = section.text("proxy", limit: 2048) else {
            proxy = nil
            return
        }
        guard let url = WebURL(text), !url.isSecure, let port = url.port, url.path.isEmpty else {
            section.report("proxy", "has to be `http://host:port`, without user name and path")
            proxy = nil
            return
        }
        proxy = Proxy(host: url.host, port: port)
    }
}
