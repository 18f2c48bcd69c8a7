/// A page of a place's sealed values.
package struct SealedPage: Sendable, Equatable {
    package var rows: [SealedRow]
    /// Where to go on; nil after the last.
    package var next: Digest?
    /// How many values were looked at.
    package var seen: Int

    package init(rows: [SealedRow], next: Digest?, seen: Int) {
        self.rows = rows
        self.next = next
        self.seen = seen
    }
}
