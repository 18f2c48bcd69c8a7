/// A page of the sealed values in a column.
package struct SealedPage: Sendable, Equatable {
    package var rows: [SealedRow]
    /// The key after which the next page begins; nil after the last page.
    package var next: Digest?
    /// The number of values that were read for this page, including those that `rows` leaves out.
    package var seen: Int

    package init(rows: [SealedRow], next: Digest?, seen: Int) {
        self.rows = rows
        self.next = next
        self.seen = seen
    }
}
