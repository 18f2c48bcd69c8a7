/// A `Host` value or the authority of a URL: a host with an optional port.
package struct Authority: Hashable, Sendable {
    /// The host in lower case; an IPv6 literal keeps its brackets.
    package let host: String
    package let port: Int?

    /// Parses an authority without user information; nil if it is malformed (RFC 9112 section 3.2).
    package init?(_ text: some StringProtocol) {
        guard Self.isWellFormed(text.utf8) else { return nil }
        var host = Substring(text)
        var port: Int?
        if let colon = host.lastIndex(of: ":"), !host.hasSuffix("]") {
            port = Int(host[host.index(after: colon)...])
            host = host[..<colon]
        }
        self.host = host.lowercased()
        self.port = port
    }

    private enum Part { case start, name, literal, literalEnd, port }

    /// Returns whether the bytes are `host` or `host:port` with a port of 1–5 digits and a non-empty host.
    package static func isWellFormed(_ bytes: some Sequence<UInt8>) -> Bool {
        var part = Part.start
        var count = 0
        for byte in bytes {
            switch part {
            case .start where byte == UInt8(ascii: "["): part = .literal
            case .start where isName(byte): part = .name
            case .name where isName(byte): break
            case .name where byte == UInt8(ascii: ":"), .literalEnd where byte == UInt8(ascii: ":"):
                part = .port
                count = 0
            case .literal where byte == UInt8(ascii: "]") && count > 1: part = .literalEnd
            case .literal where isHexadecimal(byte) || byte == UInt8(ascii: ":") || byte == UInt8(ascii: "."):
                count += 1
            case .port where (0x30...0x39).contains(byte) && count < 5: count += 1
            default: return false
            }
        }
        return part == .name || part == .literalEnd || (part == .port && count > 0)
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x46).contains(byte) || (0x61...0x66).contains(byte)
    }

    private static func isName(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }
}

extension StringProtocol {
    /// Compares ASCII letters without regard to case, and all other bytes exactly.
    package func isASCIIEqual(to other: some StringProtocol) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        return withBytes { left in
            other.withBytes { right in
                zip(left, right).allSatisfy { left, right in
                    left == right || (left | 0x20 == right | 0x20 && (0x61...0x7A).contains(left | 0x20))
                }
            }
        }
    }

    /// Calls `body` with the UTF-8 bytes in place, because indexing a `UTF8View` costs more than reading the byte.
    func withBytes<Value>(_ body: (UnsafeBufferPointer<UInt8>) -> Value) -> Value {
        if let value = utf8.withContiguousStorageIfAvailable(body) { return value }
        return Array(utf8).withUnsafeBufferPointer(body)
    }
}
