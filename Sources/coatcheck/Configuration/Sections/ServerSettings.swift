/// The public listener (`server`).
struct ServerSettings: Sendable {
    let listen: ListenAddress
    /// How apps reach the broker; scheme, host and port only.
    let publicURL: WebURL
    /// Further names accepted in `Host`.
    let hosts: [String]
    /// Whose `X-Forwarded-For` and `-Proto` are believed.
    let trustedProxies: [AddressRange]
    /// How long a graceful shutdown may take.
    let shutdownTimeout: Duration

    init?(_ section: ConfigSection) {
        listen = section.listenAddress("listen", default: ListenAddress(host: "127.0.0.1", port: 8080))
        trustedProxies = section.addressRanges("trusted_proxies")
        shutdownTimeout = section.duration("shutdown_timeout", default: .seconds(30), in: .seconds(1) ... .seconds(300))
        hosts = section.texts("hosts", limit: 255).compactMap { host in
            if let url = WebURL("https://\(host)"), url.path.isEmpty { return host.lowercased() }
            section.report("hosts", "has to hold host names, each with its port if it has one")
            return nil
        }
        guard let text = section.requiredText("public_url", limit: 2048) else { return nil }
        guard let url = WebURL(text), url.path.isEmpty else {
            section.report("public_url", "has to be `https://` and a host, without a path (not even a closing `/`)")
            return nil
        }
        if !url.isSecure {
            section.warn(
                "public_url",
                url.isLoopback
                    ? "is plain http: the cookie has neither its `__Host-` prefix nor `Secure` (development only)"
                    : "is plain http on a name that is not loopback: cookies and tokens travel in the clear")
        }
        publicURL = url
    }
}
