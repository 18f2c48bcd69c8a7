import Broker

/// The address and port of a listener.
///
/// Port 0 selects a free port.
struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    let host: String
    let port: Int

    init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Parses `host:port`; an IPv6 host has to be in brackets.
    init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            return nil
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
            guard host.contains(":") else { return nil }
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty, host.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x2F && $0 != 0x40 }) else {
            return nil
        }
        self.host = host
        self.port = Int(port)
    }

    var isLoopback: Bool { host.lowercased() == "localhost" || IPAddress(host)?.isLoopback ?? false }

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

extension ConfigSection {
    /// Reads a listening address.
    func listenAddress(_ key: String, default fallback: ListenAddress) -> ListenAddress {
        listenAddress(key) ?? fallback
    }

    /// Reads a listening address; nil if it is absent.
    func listenAddress(_ key: String) -> ListenAddress? {
        guard let text = text(key) else { return nil }
        if let address = ListenAddress(text) { return address }
        report(key, "has to be an address and a port, such as `127.0.0.1:8080` or `[::1]:8080`")
        return nil
    }
}
