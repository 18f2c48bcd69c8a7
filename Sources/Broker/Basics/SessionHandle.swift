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
