/// A sealed value with what is to take its place.
package struct ResealedRow: Sendable, Equatable {
    package let old: SealedRow
    package let new: Sealed

    package init(_ old: SealedRow, new: Sealed) {
        self.old = old
        self.new = new
    }
}
