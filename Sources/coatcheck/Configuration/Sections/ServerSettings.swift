import Broker
import BrokerWire

/// The public listener, and the backends' own listener if there is one (`server`).
struct ServerSettings: Sendable {
    let listen: ListenAddress
    /// The address of the backends' own listener; nil if backends use the public listener.
    let backendListen: ListenAddress?
    /// The URL that apps use for the broker, with only scheme, host and port.
    let publicURL: WebURL
    /// Further names that are accepted in `Host`.
    let hosts: [String]
    /// The proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted.
    let trustedProxies: [IPNetwork]
    /// The prefixes of stateless IPv6 translators, in addition to the well-known prefix `64:ff9b::/96` (RFC 6052).
    let translators: [IPNetwork]
    /// The certificate of the listeners for apps and backends; nil if TLS ends before the broker.
    let tls: ServerTLS?
    /// The time between the beginning of a shutdown, when the broker reports unready, and the closing of the listeners.
    let drainDelay: Duration
    /// The longest time for running requests after the listeners have closed.
    let shutdownTimeout: Duration
    /// The longest time that a connection may be idle between requests.
    ///
    /// Values above the default apply to trusted proxies only.
    let keepAlive: Duration

    init?(_ section: ConfigSection) {
        listen = section.listenAddress("listen", default: ListenAddress(host: "127.0.0.1", port: 8080))
        backendListen = section.listenAddress("backend_listen")
        if let backendListen, !backendListen.isLoopback {
            section.warn(
                "backend_listen",
                "is reachable from other machines; keep the port inside your network, for backends only")
        }
        tls = Self.tls(section)
        trustedProxies = section.networks("trusted_proxies")
        translators = section.translators("translators")
        drainDelay = section.duration("drain_delay", default: .seconds(2), in: .zero ... .seconds(60))
        shutdownTimeout = section.duration("shutdown_timeout", default: .seconds(30), in: .seconds(1) ... .seconds(300))
        keepAlive = section.duration("keep_alive", default: .seconds(75), in: .seconds(5) ... .seconds(3600))
        if keepAlive > ConnectionLimits().idleOfStrangers, trustedProxies.isEmpty {
            section.warn("keep_alive", "is more than 75s, which applies to `trusted_proxies` alone, an empty list here")
        }
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
        if section.has("tls"), !url.isSecure { section.report("tls", "needs an https `public_url`") }
        if let tls, url.isSecure, IPAddress(urlHost: url.host) == nil, !tls.isFor(url.host) {
            section.warn("tls", "has a certificate that is not for the host of `public_url`")
        }
        publicURL = url
    }

    /// The time before a certificate's expiry, in seconds, that causes a warning.
    private static let lastDays: Int64 = 14 * 86_400

    private static func tls(_ parent: ConfigSection) -> ServerTLS? {
        guard let section = parent.optionalSection("tls") else { return nil }
        for key in ["certificate", "key"] where parent.has("tls") { section.require(key) }
        let certificate = section.readableFile("certificate")
        let key = section.privateKeyFile("key")
        guard let certificate, let key else { return nil }
        let now = section.context.sources.now().seconds
        do throws(ServerTLS.Failure) {
            let tls = try ServerTLS(certificate: certificate.bytes, key: key.bytes(), now: now)
            if tls.expiresAt - now < lastDays {
                section.warn("certificate", "runs out on \(WallTime(seconds: tls.expiresAt).rfc3339)")
            }
            return tls
        } catch {
            switch error {
            case .noCertificate: section.report("certificate", "names a file that \(error)")
            case .noKey: section.report("key", "names a file that \(error)")
            case .doesNotFit: section.report("key", "\(error)")
            case .runOut(let time), .notYet(let time):
                section.report("certificate", "names a file that \(error) (\(WallTime(seconds: time).rfc3339))")
            }
            return nil
        }
    }
}
