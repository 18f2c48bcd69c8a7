/// A redirect URI as it is registered at a provider.
///
/// The scheme is https, http for a loopback address, or a custom one. Fragments and user information are refused. The text is
/// compared byte for byte (RFC 9700 section 4.1.3) in the spelling `normalized`. The port of a loopback address is ignored (RFC
/// 8252 section 7.3).
package struct RedirectURI: Sendable, Hashable {
    /// The text, exactly as registered.
    package let text: String
    /// The scheme in lower case.
    package let scheme: String
    /// The host in lower case without its port; nil for a custom scheme without an authority.
    package let host: String?
    /// The port, if one is written.
    package let port: Int?
    /// The path, from its first `/`; without an authority, the text after the scheme's colon.
    package let path: String
    /// The query part, without its question mark (RFC 6749 section 3.1.2); nil if it is missing.
    package let query: String?
    /// The port's digits, as they are written in the text.
    private let portText: String?

    /// Creates a redirect URI from a text with a custom scheme that is known to be well formed.
    init(unchecked text: String) {
        self.text = text
        scheme = ""
        host = nil
        port = nil
        path = ""
        query = nil
        portText = nil
    }

    /// Parses a redirect URI as it may be registered, with or without a query part.
    package init?(registered text: String) {
        guard let mark = text.utf8.firstIndex(of: UInt8(ascii: "?")) else {
            self.init(text)
            return
        }
        let query = String(text[text.utf8.index(after: mark)...])
        guard !query.isEmpty, text.utf8.count <= 2048,
            query.utf8.allSatisfy({ URLByte.isAllowed($0) && $0 != URLByte.hash && $0 != URLByte.question }),
            (try? FormPairs(parsing: query)) != nil
        else { return nil }
        self.init(String(text[..<mark]), query: query)
    }

    /// Parses a redirect URI without a query part, or returns nil.
    package init?(_ text: String) { self.init(text, query: nil) }

    private init?(_ base: String, query: String?) {
        let text = base
        guard text.utf8.count <= 2048,
            text.utf8.allSatisfy({
                URLByte.isAllowed($0) && $0 != URLByte.hash && $0 != URLByte.question && $0 != URLByte.at
            }),
            let colon = text.utf8.firstIndex(of: UInt8(ascii: ":"))
        else { return nil }
        self.query = query
        let scheme = text[..<colon].lowercased()
        guard let first = scheme.utf8.first, (0x61...0x7A).contains(first),
            scheme.utf8.allSatisfy({
                (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || "+-.".utf8.contains($0)
            })
        else { return nil }
        let rest = text[text.utf8.index(after: colon)...]
        guard !rest.isEmpty else { return nil }
        if rest.hasPrefix("//") {
            let authorityAndPath = rest.dropFirst(2)
            let slash = authorityAndPath.utf8.firstIndex(of: UInt8(ascii: "/")) ?? authorityAndPath.endIndex
            guard let (host, port) = Self.authority(authorityAndPath[..<slash]) else { return nil }
            self.host = host
            self.port = port.flatMap { Int($0) }
            portText = port.map { String($0) }
            path = String(authorityAndPath[slash...])
        } else {
            host = nil
            port = nil
            portText = nil
            path = String(rest)
        }
        if scheme == "http" || scheme == "https" { guard host?.isEmpty == false else { return nil } }
        // Browsers remove the segments `.` and `..`, so a check of the text could see another path than the browser.
        let segments = path.utf8.split(separator: UInt8(ascii: "/"))
        guard !segments.contains(where: { $0.elementsEqual(".".utf8) || $0.elementsEqual("..".utf8) }) else {
            return nil
        }
        self.scheme = scheme
        self.text = query.map { text + "?" + $0 } ?? text
    }

    private static func authority(_ text: Substring) -> (String, Substring?)? {
        var host = text
        var port: Substring?
        if let colon = text.lastIndex(of: ":"), !text.hasSuffix("]") {
            let digits = text[text.index(after: colon)...]
            guard (1...5).contains(digits.utf8.count), digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
                let value = Int(digits), (1...65_535).contains(value)
            else { return nil }
            port = digits
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

    /// The text without its query part.
    package var base: String { query.map { String(text.dropLast($0.utf8.count + 1)) } ?? text }

    /// The text in the spelling that is compared (RFC 3986 sections 6.2.2.1 and 6.2.3, decision 87).
    ///
    /// Scheme and host are in lower case. For http and https, an empty path is `/`, and the scheme's default port (`:80` or
    /// `:443`) is dropped. All other bytes are as written.
    package var normalized: String { normalizedBase + (query.map { "?" + $0 } ?? "") }

    /// The part of `normalized` before the query part.
    package var normalizedBase: String {
        guard let host else { return scheme.isEmpty ? text : scheme + ":" + path }
        let ownPort = scheme == "https" ? "443" : scheme == "http" ? "80" : nil
        let port = portText.flatMap { $0 == ownPort ? nil : ":" + $0 } ?? ""
        return scheme + "://" + host + port + (path.isEmpty && ownPort != nil ? "/" : path)
    }

    /// Returns whether two texts are the same redirect URI; the ports of loopback addresses are compared, too.
    package static func areSame(_ one: String, _ other: String) -> Bool {
        if one.hasBytes(of: other) { return true }
        guard let one = RedirectURI(registered: one), let other = RedirectURI(registered: other) else { return false }
        return one.normalized.hasBytes(of: other.normalized)
    }

    /// The spelling of this registration for comparison; a literal loopback address loses its port.
    ///
    /// The system picks that port for each login (RFC 8252 section 7.3). A name such as `localhost` keeps its port, because
    /// another program may own the port (section 8.3).
    package var registration: String {
        guard isLoopbackLiteral, let host else { return normalized }
        return "http://" + host + (path.isEmpty ? "/" : path) + (query.map { "?" + $0 } ?? "")
    }

    /// Whether the host is a literal loopback address, so the system picks the port.
    private var isLoopbackLiteral: Bool { scheme == "http" && (host == "127.0.0.1" || host == "[::1]") }

    /// Returns this registered redirect URI in the form that the provider receives for a login.
    ///
    /// The text stays as configured; on a loopback address it gets the login's port.
    package func spelled(for login: RedirectURI) -> RedirectURI {
        guard isLoopbackLiteral, portText != login.portText, let host else { return self }
        let written = text.prefix(scheme.utf8.count) + "://" + host + (login.portText.map { ":" + $0 } ?? "") + path
        return RedirectURI(registered: written + (query.map { "?" + $0 } ?? "")) ?? self
    }

    /// Whether the host is `localhost` or a loopback address.
    package var isLoopback: Bool { host.map { IPAddress.isLoopback(urlHost: $0) } ?? false }
}

/// The bytes of a URL (RFC 3986).
enum URLByte {
    static let hash = UInt8(ascii: "#")
    static let question = UInt8(ascii: "?")
    static let at = UInt8(ascii: "@")

    /// Returns whether a byte may occur in a URL: printable ASCII without quotes, brackets and backslashes.
    static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\\"), UInt8(ascii: "^"),
            UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
            false
        default: (0x21...0x7E).contains(byte)
        }
    }
}
