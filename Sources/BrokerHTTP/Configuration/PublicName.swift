import Broker
import BrokerWire

/// Who we are to the outside: the accepted names, our origin, and whether this is a development set-up.
struct PublicName: Sendable {
    /// Whether `public_url` is https: cookies have their prefix and `Secure`.
    let isSecure: Bool
    /// Whether `public_url` is at a loopback name: nobody else can reach us, so limits spare loopback peers.
    let isLoopback: Bool
    /// Our own origin, as browsers write it.
    let origin: String
    private let accepted: Set<String>

    /// Creates it; `further` are names accepted beside the configured ones.
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

    /// Returns whether a `Host` names us: whole names, ports included (SEC-90, SEC-103).
    func accepts(_ host: String) -> Bool {
        if accepted.contains(host) { return true }
        guard let authority = Authority(host) else { return false }
        if isLoopback, authority.isLoopback { return true }
        return accepted.contains(authority.port.map { "\(authority.host):\($0)" } ?? authority.host)
    }
}

/// The names that the management listener is reached by (`management.hosts`).
///
/// A page whose name was made to point at this machine sends that name as `Host`, and must not read metrics (DNS
/// rebinding); an address needs no resolving, so it cannot be made to point elsewhere.
struct ManagementName: Sendable {
    private let accepted: Set<String>

    /// Creates it; a name without a port is accepted with any.
    init(_ hosts: [String]) {
        accepted = Set(hosts.compactMap { Authority($0) }.map { Self.text($0.host, $0.port) })
    }

    /// Returns whether a `Host` is a loopback name, an address, or a configured name.
    func accepts(_ host: String) -> Bool {
        guard let authority = Authority(host) else { return false }
        return authority.isLoopback || authority.address != nil || accepted.contains(authority.host)
            || accepted.contains(Self.text(authority.host, authority.port))
    }

    private static func text(_ host: String, _ port: Int?) -> String { port.map { "\(host):\($0)" } ?? host }
}
