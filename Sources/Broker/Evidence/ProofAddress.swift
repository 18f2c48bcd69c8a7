/// An http or https address in a normalized form, for comparing it with a proof's `htu` (RFC 9449 section 4.3 check 9).
///
/// Normalization follows RFC 3986 sections 6.2.2 and 6.2.3, and removes query and fragment.
package struct ProofAddress: Sendable, Hashable {
    /// Scheme, host and port.
    ///
    /// The port is left out if it is the scheme's default.
    package let origin: String
    /// The path; never empty.
    package let path: String

    /// The host; an IPv6 address is in brackets.
    private let host: String

    /// Whether the host is a loopback name or address.
    package var isLoopback: Bool { IPAddress.isLoopback(urlHost: host) }

    /// Normalizes an absolute http or https address.
    ///
    /// The result is nil for any other text, and for an address with user information, a malformed escape or a byte outside
    /// ASCII.
    package init?(_ text: String) {
        let text = Array(text.utf8)
        guard text.allSatisfy({ (0x21...0x7E).contains($0) }), let colon = text.firstIndex(of: UInt8(ascii: ":")) else {
            return nil
        }
        let scheme = Self.lowercased(text[..<colon])
        let rest = text[(colon + 1)...]
        guard scheme == "http" || scheme == "https", rest.starts(with: "//".utf8) else { return nil }
        let hierarchy = rest.dropFirst(2).prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        let slash = hierarchy.firstIndex(of: Self.slash) ?? hierarchy.endIndex
        guard let (host, port) = Self.authority(hierarchy[..<slash], isTLS: scheme == "https"),
            let path = Self.normalizedPath(hierarchy[slash...])
        else { return nil }
        origin = "\(scheme)://\(host)" + (port.map { ":\($0)" } ?? "")
        self.host = host
        self.path = path
    }

    /// Returns the host in lower case, and the port unless it is the scheme's default; nil for a malformed authority.
    private static func authority(_ text: ArraySlice<UInt8>, isTLS: Bool) -> (host: String, port: Int?)? {
        guard !text.contains(UInt8(ascii: "@")), !text.contains(UInt8(ascii: "%")) else { return nil }
        let isBracketed = text.first == UInt8(ascii: "[")
        // The colons of an IPv6 address are inside its brackets.
        let end = isBracketed ? text.firstIndex(of: UInt8(ascii: "]")).map { $0 + 1 } : nil
        let hostEnd = end ?? text.firstIndex(of: UInt8(ascii: ":")) ?? text.endIndex
        guard hostEnd > text.startIndex, isBracketed == (end != nil) else { return nil }
        let rest = text[hostEnd...]
        guard rest.isEmpty || rest.first == UInt8(ascii: ":") else { return nil }
        let digits = rest.dropFirst()
        guard digits.count <= 5, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        let port = digits.isEmpty ? nil : digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        return (lowercased(text[..<hostEnd]), port == (isTLS ? 443 : 80) ? nil : port)
    }

    /// Returns a path without dot segments, and with its escapes in one form; nil if an escape is malformed.
    package static func normalizedPath(_ text: some Collection<UInt8>) -> String? {
        var input = Array(text)[...]
        if isNormalized(input) { return String(decoding: input, as: UTF8.self) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(input.count)
        while let byte = input.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = input.popFirst().flatMap(hexadecimal), let low = input.popFirst().flatMap(hexadecimal)
            else {
                return nil
            }
            let value = high << 4 | low
            if isUnreserved(value) {
                bytes.append(value)
            } else {
                bytes += [byte, upperDigit(high), upperDigit(low)]
            }
        }
        return String(decoding: withoutDotSegments(bytes), as: UTF8.self)
    }

    /// Returns whether a path is surely normalized already, which is true for nearly every path.
    ///
    /// The check is fast and strict: it returns false for each path with an escape, or with a segment that begins with a dot.
    private static func isNormalized(_ path: ArraySlice<UInt8>) -> Bool {
        guard path.first == slash else { return false }
        var last: UInt8 = 0
        for byte in path {
            if byte == UInt8(ascii: "%") || last == slash && byte == UInt8(ascii: ".") { return false }
            last = byte
        }
        return true
    }

    /// Returns the path without its dot segments (RFC 3986 section 5.2.4).
    private static func withoutDotSegments(_ path: [UInt8]) -> [UInt8] {
        var kept: [ArraySlice<UInt8>] = []
        let segments = path.split(separator: slash, omittingEmptySubsequences: false).dropFirst()
        for (index, segment) in segments.enumerated() {
            let isParent = segment.elementsEqual("..".utf8)
            guard isParent || segment.elementsEqual(".".utf8) else {
                kept.append(segment)
                continue
            }
            if isParent, !kept.isEmpty { kept.removeLast() }
            // If the last segment is `.` or `..`, the result has to end with a slash (`/a/.` becomes `/a/`).
            if index == segments.count - 1 { kept.append([]) }
        }
        return [slash] + kept.joined(separator: [slash])
    }

    private static let slash = UInt8(ascii: "/")

    private static func lowercased(_ text: ArraySlice<UInt8>) -> String {
        String(decoding: text.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
            || "-._~".utf8.contains(byte)
    }

    private static func hexadecimal(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }

    private static func upperDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x37 + value }
}
