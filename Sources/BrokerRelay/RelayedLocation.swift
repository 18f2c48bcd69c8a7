import BrokerWire

/// Converts an upstream's `Location` and `Content-Location` for apps, which call the broker's origin.
///
/// An app resolves a relative reference against the broker's URL. An upstream could thus send an app, with its session, to any
/// path of the broker or to another upstream. So each reference is resolved against the upstream's URL that was called (RFC
/// 3986 section 5):
/// - A reference below the upstream's base URL becomes its relay path.
/// - An absolute reference to another site stays.
/// - Any other reference to the broker's own origin is dropped.
struct RelayedLocation {
    /// The upstream's name.
    let upstream: String
    let base: UpstreamBase
    /// The request's target at the upstream.
    let target: String
    /// The host names and ports of the broker itself.
    let own: Set<OwnName>

    /// The parts of a reference that are needed for the conversion.
    private struct Place {
        var path: Substring
        /// The query with its `?`; empty if the reference has no query.
        var query: Substring
        /// The fragment with its `#`.
        var fragment: Substring

        init(_ text: Substring) {
            let mark = text.utf8.firstIndex(of: UInt8(ascii: "#")) ?? text.endIndex
            fragment = text[mark...]
            let rest = text[..<mark]
            let question = rest.utf8.firstIndex(of: UInt8(ascii: "?")) ?? rest.endIndex
            path = rest[..<question]
            query = rest[question...]
        }
    }

    /// Returns the upstream's reference as the app must see it, with relay paths for locations at the upstream; nil if the field
    /// must be dropped.
    func mapped(_ value: String) -> String? {
        guard let text = Self.written(value) else { return nil }
        if let scheme = Self.scheme(of: text) {
            // A reference with an app's own scheme stays, because it cannot lead to the broker.
            guard scheme == "https" || scheme == "http" else { return value }
            return absolute(scheme, text[text.index(text.startIndex, offsetBy: scheme.utf8.count + 1)...])
        }
        if text.hasPrefix("//") { return absolute(base.isSecure ? "https" : "http", text[...]) }
        let called = Place(target[...])
        var place = Place(text[...])
        if place.path.isEmpty {
            if place.query.isEmpty { place.query = called.query }
            place.path = called.path
        } else if place.path.first != "/" {
            let end = called.path.utf8.lastIndex(of: UInt8(ascii: "/")).map { called.path.utf8.index(after: $0) }
            place.path = called.path[..<(end ?? called.path.startIndex)] + place.path
        }
        return relayed(place)
    }

    /// Converts an absolute reference, whose `rest` begins with two slashes.
    private func absolute(_ scheme: String, _ rest: Substring) -> String? {
        guard rest.hasPrefix("//") else { return nil }
        let after = rest.dropFirst(2)
        let end = after.utf8.firstIndex { [UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#")].contains($0) }
        let (name, path) = (after[..<(end ?? after.endIndex)], after[(end ?? after.endIndex)...])
        // Drop references with user information, encoded names and the like, because programs disagree about the host in such a
        // reference.
        guard let authority = Authority(name), authority.host.last != "." else { return nil }
        let isSecure = scheme == "https"
        let port = authority.port ?? (isSecure ? 443 : 80)
        if isBase(authority.host, port), let inside = relayed(Place(path.first == "/" ? path : "/" + path)) {
            return inside
        }
        // Ports 80 and 443 count as the broker's too, because a proxy in front of the broker may forward these ports to the
        // broker.
        let isOwn = own.contains { $0.host == authority.host && ($0.port == port || port == 443 || port == 80) }
        return isOwn ? nil : "\(scheme):\(rest)"
    }

    /// Returns whether a host and port belong to the upstream.
    ///
    /// An API behind a proxy often reports its own https as http, so port 80 counts as port 443.
    private func isBase(_ host: String, _ port: Int) -> Bool {
        guard let name = Authority(base.authority), name.host == host else { return false }
        return port == base.port || (port == 80 && base.port == 443)
    }

    /// Returns the relay path for a location at the upstream; nil in two cases: the location is outside the base URL; or the
    /// relay refuses its path.
    private func relayed(_ place: Place) -> String? {
        guard let path = Self.withoutDots(place.path), path.hasPrefix(base.path) else { return nil }
        let inside = path.dropFirst(base.path.count)
        guard inside.isEmpty || inside.first == "/" else { return nil }
        guard let canonical = try? CanonicalPath(inside.isEmpty ? "/" : inside) else { return nil }
        return RelayTarget.prefix + upstream + canonical.text + place.query + place.fragment
    }

    /// Returns the path with its dot segments resolved; nil if they lead above the root.
    private static func withoutDots(_ path: Substring) -> String? {
        var segments: [Substring] = []
        let all = path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        for (index, segment) in all.enumerated() {
            switch segment {
            case "..":
                if segments.popLast() == nil { return nil }
                if index == all.count - 1 { segments.append("") }
            case ".":
                if index == all.count - 1 { segments.append("") }
            default: segments.append(segment)
            }
        }
        return "/" + segments.joined(separator: "/")
    }

    /// Returns a reference with all encodings that RFC 3986 requires; nil if two programs could understand it differently.
    private static func written(_ value: String) -> String? {
        var output: [UInt8] = []
        output.reserveCapacity(value.utf8.count)
        for byte in value.utf8 {
            switch byte {
            // Drop the field, because browsers read a backslash as a slash and omit control bytes.
            case UInt8(ascii: "\\"), 0..<0x20, 0x7F: return nil
            case 0x80..., 0x20, UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "^"),
                UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
                URIBytes.appendEncoded(byte, to: &output)
            default: output.append(byte)
            }
        }
        return output.isEmpty ? nil : String(decoding: output, as: UTF8.self)
    }

    /// Returns the scheme of an absolute reference in lower case; nil for a relative one.
    private static func scheme(of text: String) -> String? {
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let name = text[..<colon]
        guard let first = name.utf8.first, (first | 0x20) >= 0x61, (first | 0x20) <= 0x7A else { return nil }
        let isScheme = name.utf8.allSatisfy { byte in
            (0x61...0x7A).contains(byte | 0x20) || (0x30...0x39).contains(byte) || byte == UInt8(ascii: "+")
                || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
        }
        return isScheme ? name.lowercased() : nil
    }
}

/// A host and port that clients use for the broker.
struct OwnName: Sendable, Hashable {
    let host: String
    let port: Int

    /// Parses a URL (`https://auth.example.com`), or a host with an optional port.
    ///
    /// A path after the port is ignored.
    init?(_ text: String) {
        let isPlain = text.hasPrefix("http://")
        let rest = text.split(separator: "://", maxSplits: 1).last ?? ""
        guard let authority = Authority(rest.prefix { $0 != "/" }) else { return nil }
        host = authority.host
        port = authority.port ?? (isPlain ? 80 : 443)
    }
}
