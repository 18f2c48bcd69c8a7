import Broker

/// The public listener, and the backends' own where there is one (`server`).
struct ServerSettings: Sendable {
    let listen: ListenAddress
    /// Where backends have a listener of their own; nil where they share the public one.
    let backendListen: ListenAddress?
    /// How apps reach the broker; scheme, host and port only.
    let publicURL: WebURL
    /// Further names accepted in `Host`.
    let hosts: [String]
    /// Whose `X-Forwarded-For` and `-Proto` are believed.
    let trustedProxies: [IPNetwork]
    /// How long readiness is red before a listener closes.
    let drainDelay: Duration
    /// How long running requests may take after that.
    let shutdownTimeout: Duration

    init?(_ section: ConfigSection) {
        listen = section.listenAddress("listen", default: ListenAddress(host: "127.0.0.1", port: 8080))
        backendListen = section.listenAddress("backend_listen")
        if let backendListen, !backendListen.isLoopback {
            section.warn(
                "backend_listen", "is reachable from elsewhere: keep the port inside, where only backends get to it")
        }
        trustedProxies = section.networks("trusted_proxies")
        drainDelay = section.duration("drain_delay", default: .seconds(2), in: .zero ... .seconds(60))
        shutdownTimeout = section.duration("shutdown_timeout", default: .seconds(30), in: .seconds(1) ... .seconds(300))
        hosts = section.hostNames("hosts")
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
