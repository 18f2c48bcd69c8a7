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
    func isEqual(to other: Secret) -> Bool { bytes()[...].isEqualInConstantTime(to: other.bytes()[...]) }

    /// Whether there is nothing in it.
    package var isEmpty: Bool { value.isEmpty }

    package var description: String { "<secret>" }
    package var debugDescription: String { "<secret>" }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension ArraySlice<UInt8> {
    /// Returns whether both are the same bytes; takes as long whatever they are, but for their lengths (SEC-53).
    func isEqualInConstantTime(to other: ArraySlice<UInt8>) -> Bool {
        guard count == other.count else { return false }
        var difference: UInt8 = 0
        for offset in 0..<count { difference |= self[startIndex + offset] ^ other[other.startIndex + offset] }
        return difference == 0
    }
}
