/// A sealed value and its replacement, sealed with a newer key.
package struct ResealedRow: Sendable, Equatable {
    package let old: SealedRow
    package let new: Sealed

    package init(_ old: SealedRow, new: Sealed) {
        self.old = old
        self.new = new
    }
}
