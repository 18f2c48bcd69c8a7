extension StringProtocol {
    /// Compares ASCII letters without regard to case, and every other byte exactly.
    package func isASCIIEqual(to other: some StringProtocol) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        return zip(utf8, other.utf8).allSatisfy { left, right in
            left == right || (left | 0x20 == right | 0x20 && (0x61...0x7A).contains(left | 0x20))
        }
    }
}
