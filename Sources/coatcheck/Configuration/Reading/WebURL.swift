import Broker

/// An absolute http or https URL of the configuration, without user information, query and fragment.
struct WebURL: Sendable, Hashable {
    /// The text as written.
    let text: String
    let isSecure: Bool
    /// The host in lower case, with brackets for IPv6.
    let host: String
    /// The port as written.
    let port: Int?
    /// The path, empty or from its first `/`.
    let path: String

    /// Parses a URL; returns nil unless the text is an absolute http or https URL without user information, query and fragment.
    init?(_ text: String) {
        guard let parsed = RedirectURI(text), parsed.scheme == "https" || parsed.scheme == "http",
            text.hasPrefix("\(parsed.scheme)://"), let host = parsed.host
        else { return nil }
        self.text = text
        isSecure = parsed.scheme == "https"
        self.host = host
        port = parsed.port
        path = parsed.path
    }

    /// Whether the host is a loopback name or address.
    var isLoopback: Bool { IPAddress.isLoopback(urlHost: host) }

    /// The origin in the form of browsers: `scheme://host[:port]`, without the scheme's default port.
    var origin: String {
        let standard = isSecure ? 443 : 80
        let suffix = port.flatMap { $0 == standard ? nil : ":\($0)" } ?? ""
        return "\(isSecure ? "https" : "http")://\(host)\(suffix)"
    }
}
