import Broker
import BrokerWire

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
