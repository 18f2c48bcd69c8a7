/// The configured name of a provider, client, upstream or backend.
///
/// A name has 1 to 63 characters of `a-z A-Z 0-9 - _ .`, and begins with a letter or a digit.
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
