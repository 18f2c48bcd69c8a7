package import Broker

/// An upstream's base URL, parsed once and strictly (SEC-71), so that callers cannot alter it.
package struct UpstreamBase: Sendable, Equatable {
    /// Scheme, authority and base path (`https://api.example.com:8443/v1`), ending before any final slash.
    package let prefix: String
    /// The host, stripped of brackets.
    let host: String
    let port: Int
    /// Whether the URL's scheme is https.
    package let isSecure: Bool
    /// The base path, ending before any final slash; empty for the root.
    let path: String
    /// The value of `Host`.
    package let authority: String
    /// Whether the host is a loopback name or address.
    package let isLoopback: Bool
    /// The host's address, if the host is an address.
    package let address: IPAddress?

    /// Scheme and authority.
    package var origin: String { (isSecure ? "https://" : "http://") + authority }

    /// Parses a base URL, which has a host, an optional port and an optional path.
    ///
    /// The scheme is https, or http on loopback or inside the operator's own network (decision 85).
    package init(_ text: String, isInternal: Bool = false) throws(UpstreamFault) {
        func fault(_ message: String) -> UpstreamFault { UpstreamFault("base_url", message) }
        let secure: Bool
        let rest: Substring
        if text.lowercased().hasPrefix("https://") {
            (secure, rest) = (true, text.dropFirst(8))
        } else if text.lowercased().hasPrefix("http://") {
            (secure, rest) = (false, text.dropFirst(7))
        } else {
            throw fault("must begin with https:// (or http:// on loopback, or with `internal: true`)")
        }
        guard !rest.contains(where: { $0 == "?" || $0 == "#" }) else { throw fault("must have no query or fragment") }
        let authorityEnd = rest.firstIndex(of: "/") ?? rest.endIndex
        let authorityText = rest[..<authorityEnd].lowercased()
        guard !authorityText.contains("@") else { throw fault("must have no user information") }
        let (host, port) = try Self.split(authorityText)

        address = IPAddress(urlHost: host)
        isLoopback = IPAddress.isLoopback(urlHost: host)
        guard secure || isLoopback || isInternal else {
            throw fault("must be https:// unless the host is loopback, or inside your own network (`internal: true`)")
        }
        if !secure, let address, !address.isOfOwnNetwork {
            throw fault("must be https://: plain http is for addresses of your own network")
        }

        var path = rest[authorityEnd...]
        if path.last == "/" { path = path.dropLast() }
        let canonical: String
        if path.isEmpty {
            canonical = ""
        } else {
            guard let parsed = try? CanonicalPath(path), parsed.text.last != "/" else {
                throw fault("has a path that would be refused (dot segments, `//`, `;`, bad encodings)")
            }
            canonical = parsed.text
        }
        let isDefaultPort = port == nil || port == (secure ? 443 : 80)
        authority = host + (isDefaultPort ? "" : ":\(port ?? 0)")
        prefix = (secure ? "https://" : "http://") + authority + canonical
        self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        self.port = port ?? (secure ? 443 : 80)
        isSecure = secure
        self.path = canonical
    }

    /// Returns whether a connection to an address may be used.
    ///
    /// With plain http, the upstream proves no identity, and the token is readable on the network. The address must therefore
    /// be in the operator's own network.
    func allows(_ address: IPAddress?, _ policy: AddressPolicy) -> Bool {
        policy.allows(address) && (isSecure || address?.isOfOwnNetwork == true)
    }

    private static func split(_ authority: String) throws(UpstreamFault) -> (host: String, port: Int?) {
        let hostEnd: String.Index
        if authority.hasPrefix("[") {
            guard let close = authority.firstIndex(of: "]") else {
                throw UpstreamFault("base_url", "has a host that begins with `[` and does not end")
            }
            hostEnd = authority.index(after: close)
        } else {
            hostEnd = authority.firstIndex(of: ":") ?? authority.endIndex
        }
        let host = String(authority[..<hostEnd])
        let isWellFormed = host.hasPrefix("[") ? IPAddress(urlHost: host) != nil : isName(host)
        guard isWellFormed else { throw UpstreamFault("base_url", "has no well-formed host") }
        guard hostEnd < authority.endIndex else { return (host, nil) }
        let digits = authority[hostEnd...].dropFirst()
        guard authority[hostEnd] == ":", digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = Int(digits), (1...65535).contains(port)
        else { throw UpstreamFault("base_url", "has a port that is not 1 to 65535") }
        return (host, port)
    }

    private static func isName(_ host: String) -> Bool {
        (1...253).contains(host.utf8.count) && host.utf8.first != 0x2D && host.utf8.first != 0x2E
            && !host.contains("..")
            && host.utf8.allSatisfy {
                (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D || $0 == 0x2E || $0 == 0x5F
            }
    }
}
