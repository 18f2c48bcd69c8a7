import Broker
import BrokerWire

extension Authority {
    /// The host as an IP address, or nil when it is a name.
    var address: IPAddress? {
        host.hasPrefix("[") ? IPAddress(host.dropFirst().dropLast()) : IPAddress(host)
    }

    /// Whether the host is a loopback name or address.
    var isLoopback: Bool { IPAddress.isLoopback(urlHost: host) }
}
