/// A redirect URI as it is registered at a provider: an https (or loopback http) URL or a custom scheme, without query,
/// fragment or user information.
///
/// Compared byte for byte (RFC 9700 section 4.1.3).
package struct RedirectURI: Sendable, Hashable {
    /// The text, exactly as registered.
    package let text: String
    /// The scheme in lower case.
    package let scheme: String
    /// The host in lower case without its port; nil for a custom scheme without an authority.
    package let host: String?
    /// The port, when one is written.
    package let port: Int?
    /// The path, from its first `/` (or from after the colon, for a scheme without an authority).
    package let path: String

    /// Creates a redirect URI of a custom scheme that is known to be well formed.
    init(unchecked text: String) {
        self.text = text
        scheme = ""
        host = nil
        port = nil
        path = ""
    }

    /// Parses a redirect URI, or returns nil when it is none.
    package init?(_ text: String) {
        guard text.utf8.count <= 2048, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            !text.contains(where: { "\\\"<>^`{|}#?@".contains($0) }), let colon = text.firstIndex(of: ":")
        else { return nil }
        let scheme = text[..<colon].lowercased()
        guard let first = scheme.utf8.first, (0x61...0x7A).contains(first),
            scheme.utf8.allSatisfy({
                (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || "+-.".utf8.contains($0)
            })
        else { return nil }
        let rest = text[text.index(after: colon)...]
        guard !rest.isEmpty else { return nil }
        if rest.hasPrefix("//") {
            let authorityAndPath = rest.dropFirst(2)
            let slash = authorityAndPath.firstIndex(of: "/") ?? authorityAndPath.endIndex
            guard let (host, port) = Self.authority(authorityAndPath[..<slash]) else { return nil }
            self.host = host
            self.port = port
            path = String(authorityAndPath[slash...])
        } else {
            host = nil
            port = nil
            path = String(rest)
        }
        if scheme == "http" || scheme == "https" { guard host?.isEmpty == false else { return nil } }
        // `..` would let a checker and a browser disagree about the path.
        let segments = path.split(separator: "/", omittingEmptySubsequences: true)
        guard !segments.contains("."), !segments.contains("..") else { return nil }
        self.scheme = scheme
        self.text = text
    }

    private static func authority(_ text: Substring) -> (String, Int?)? {
        var host = text
        var port: Int?
        if let colon = text.lastIndex(of: ":"), !text.hasSuffix("]") {
            let digits = text[text.index(after: colon)...]
            guard (1...5).contains(digits.utf8.count), digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
                let value = Int(digits), (1...65_535).contains(value)
            else { return nil }
            port = value
            host = text[..<colon]
        }
        if host.hasPrefix("[") {
            guard host.hasSuffix("]"),
                host.dropFirst().dropLast().utf8.allSatisfy({ isHexadecimal($0) || $0 == 0x3A || $0 == 0x2E })
            else { return nil }
        } else {
            guard
                host.utf8.allSatisfy({
                    isHexadecimal($0) || (0x67...0x7A).contains($0) || (0x47...0x5A).contains($0) || $0 == 0x2D
                        || $0 == 0x2E || $0 == 0x5F
                })
            else { return nil }
        }
        return (host.lowercased(), port)
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x46).contains(byte) || (0x61...0x66).contains(byte)
    }

    /// Whether the host is `localhost` or a loopback address.
    package var isLoopback: Bool { host.map { IPAddress.isLoopback(urlHost: $0) } ?? false }
}
