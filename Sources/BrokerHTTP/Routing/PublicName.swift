import BrokerWire

/// The broker's public identity: the accepted host names, its origin, and whether this is a development set-up.
struct PublicName: Sendable {
    /// Whether `public_url` is https.
    ///
    /// If so, the names of cookies keep the prefix `__Host-`, and cookies have the attribute `Secure`.
    let isSecure: Bool
    /// Whether `public_url` has a loopback name.
    ///
    /// Then only programs on this machine can reach the broker, so loopback peers have no limits.
    let isLoopback: Bool
    /// The broker's own origin, as browsers write it.
    let origin: String
    private let accepted: Set<String>

    /// Creates the public identity; `further` host names are accepted in addition to the configured ones.
    init(_ configuration: HTTPConfiguration, further: [String] = []) {
        let url = configuration.publicURL
        isSecure = url.hasPrefix("https://")
        let rest = url.dropFirst(isSecure ? 8 : 7)
        let text = String(rest.prefix { $0 != "/" })
        let authority = Authority(text)
        isLoopback = authority?.isLoopback ?? false
        let standardPort = isSecure ? 443 : 80
        let host = authority?.host ?? text
        let port = authority?.port ?? standardPort
        origin = (isSecure ? "https://" : "http://") + host + (port == standardPort ? "" : ":\(port)")
        var accepted: Set<String> = []
        for name in [text] + configuration.hosts + further {
            guard let authority = Authority(name) else { continue }
            if let port = authority.port {
                accepted.insert("\(authority.host):\(port)")
                if port == standardPort { accepted.insert(authority.host) }
            } else {
                accepted.formUnion([authority.host, "\(authority.host):\(port)", "\(authority.host):\(standardPort)"])
            }
        }
        self.accepted = accepted
    }

    /// Returns whether a `Host` names the broker, comparing whole names with their ports (SEC-90, SEC-103).
    func accepts(_ host: String) -> Bool {
        if accepted.contains(host) { return true }
        guard let authority = Authority(host) else { return false }
        if isLoopback, authority.isLoopback { return true }
        return accepted.contains(authority.port.map { "\(authority.host):\($0)" } ?? authority.host)
    }
}
