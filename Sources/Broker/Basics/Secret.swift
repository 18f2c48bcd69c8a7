/// A value that must never be printed: a token, code, verifier, cookie or client secret (SEC-114).
///
/// Every description is a placeholder. Only `reveal()` returns the text, so a search for that word finds each use. The type is
/// not `Equatable`, because secrets are compared by digest (SEC-53).
package struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private let value: String

    /// Creates a secret from its text.
    package init(_ value: String) { self.value = value }

    /// Returns the text.
    ///
    /// Call it only to send the value to its destination, or to compute a digest.
    package func reveal() -> String { value }

    /// Returns the text's UTF-8 bytes.
    package func bytes() -> [UInt8] { Array(value.utf8) }

    /// Returns whether both secrets have the same bytes, in a time that depends only on their lengths (SEC-53).
    func isEqual(to other: Secret) -> Bool { bytes()[...].isEqualInConstantTime(to: other.bytes()[...]) }

    /// Whether the text is empty.
    package var isEmpty: Bool { value.isEmpty }

    package var description: String { "<secret>" }
    package var debugDescription: String { "<secret>" }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension ArraySlice<UInt8> {
    /// Returns whether both byte sequences are equal, in a time that depends only on their lengths (SEC-53).
    func isEqualInConstantTime(to other: ArraySlice<UInt8>) -> Bool {
        guard count == other.count else { return false }
        var difference: UInt8 = 0
        for offset in 0..<count { difference |= self[startIndex + offset] ^ other[other.startIndex + offset] }
        return difference == 0
    }
}
