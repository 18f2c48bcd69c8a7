/// The rule for a callback's `iss` (RFC 9207 section 2.4).
///
/// An `iss` must equal `issuer`. If `demanded`, a successful callback must have an `iss`. `issuer` is nil for a provider that
/// publishes no issuer. Then every `iss` passes except another configured provider's.
package struct IssuerExpectation: Sendable, Equatable {
    /// A text, or a template with one segment in braces for the tenant (`https://as.example/{tenant}/v2.0`).
    package let issuer: String?
    package let demanded: Bool

    package init(issuer: String?, demanded: Bool) {
        self.issuer = issuer
        self.demanded = demanded
    }

    /// Returns whether an `iss` equals the text, or the template with a tenant filled in, byte for byte.
    package static func matches(_ text: String, _ pattern: String) -> Bool {
        let open = UInt8(ascii: "{")
        let close = UInt8(ascii: "}")
        guard let start = pattern.utf8.firstIndex(of: open),
            let end = pattern.utf8[start...].firstIndex(of: close)
        else { return text.hasBytes(of: pattern) }
        let before = Array(pattern.utf8[..<start])
        let after = Array(pattern.utf8[pattern.utf8.index(after: end)...])
        let bytes = Array(text.utf8)
        guard bytes.count > before.count + after.count, bytes.starts(with: before),
            bytes.suffix(after.count).elementsEqual(after)
        else { return false }
        let tenant = bytes[before.count..<bytes.count - after.count]
        return tenant.count <= 64
            && tenant.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
                default: false
                }
            }
    }

    /// Returns whether a text is a valid pattern, with at most one segment in braces.
    package static func isPattern(_ text: String) -> Bool {
        let braces = text.utf8.filter { $0 == UInt8(ascii: "{") || $0 == UInt8(ascii: "}") }
        return braces.isEmpty || braces == Array("{}".utf8) && !text.contains("{}")
    }
}
