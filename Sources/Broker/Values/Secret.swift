/// A value that must never be printed: a token, code, verifier, cookie or client secret (SEC-114).
///
/// Every way of describing it is bland; only `reveal()` gives the text, and a search for that word finds each use.
/// It is not `Equatable`: secrets are compared by digest (SEC-53).
package struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private let value: String

    /// Creates a secret from its text.
    package init(_ value: String) { self.value = value }

    /// Returns the text.
    ///
    /// Call it only where the value leaves for its destination or is digested.
    package func reveal() -> String { value }

    /// Returns the text's UTF-8 bytes.
    package func bytes() -> [UInt8] { Array(value.utf8) }

    /// Returns whether both hold the same bytes; takes as long whatever they are, but for their lengths (SEC-53).
    func isEqual(to other: Secret) -> Bool {
        guard value.utf8.count == other.value.utf8.count else { return false }
        return zip(value.utf8, other.value.utf8).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    /// Whether there is nothing in it.
    package var isEmpty: Bool { value.isEmpty }

    package var description: String { "<secret>" }
    package var debugDescription: String { "<secret>" }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
