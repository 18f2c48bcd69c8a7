/// The configured name of a provider, client, upstream or backend: 1–63 of `a-z A-Z 0-9 - _ .`, first alphanumeric.
package protocol ConfiguredName: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// The text.
    var text: String { get }
    /// Creates a name that is known to be well formed.
    init(unchecked text: String)
}

extension ConfiguredName {
    /// Parses a name, or returns nil if it is malformed.
    package init?(_ text: String) {
        let bytes = text.utf8
        guard (1...63).contains(bytes.count), let first = bytes.first, Self.isAlphanumeric(first),
            bytes.allSatisfy({ Self.isAlphanumeric($0) || $0 == 0x2D || $0 == 0x2E || $0 == 0x5F })
        else { return nil }
        self.init(unchecked: text)
    }

    package var description: String { text }

    package static func < (left: Self, right: Self) -> Bool { left.text < right.text }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
    }
}

/// The configured name of a provider (`google`, `clover-eu`).
package struct ProviderName: ConfiguredName {
    package let text: String
    package init(unchecked text: String) { self.text = text }
}

/// The configured name of one client registration at a provider (`ios`, `web`).
package struct ClientName: ConfiguredName {
    package let text: String
    package init(unchecked text: String) { self.text = text }
}

/// The configured name of an upstream API that the relay may call.
package struct UpstreamName: ConfiguredName {
    package let text: String
    package init(unchecked text: String) { self.text = text }
}

/// The configured name of a backend, which is a service of the operator's that may ask about sessions.
package struct BackendName: ConfiguredName {
    package let text: String
    package init(unchecked text: String) { self.text = text }
}

/// A session's public name: `ses_` and 22 base64url characters (128 bits).
///
/// The name is public, because it opens nothing.
package struct SessionHandle: Sendable, Hashable, CustomStringConvertible {
    /// The text of the handle, `ses_…`.
    package let text: String

    /// Parses a handle, or returns nil if it is malformed.
    package init?(_ text: String) {
        guard text.hasPrefix("ses_"), Base64URL.isToken(String(text.dropFirst(4)), length: 22...22) else { return nil }
        self.text = text
    }

    /// Creates a handle from 16 random bytes.
    package init(random bytes: [UInt8]) { text = "ses_" + Base64URL.encode(bytes.prefix(16)) }

    package var description: String { text }
}
