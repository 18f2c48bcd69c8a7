/// Rows of one kind, in the order of their keys.
package struct StoredPage: Sendable, Equatable {
    package var rows: [StoredRow]
    /// The key after which the next page begins; nil after the last page.
    package var next: [UInt8]?
    /// The number of rows on the page that cannot be read (damaged, or of a newer version).
    package var unreadable: Int

    package init(rows: [StoredRow], next: [UInt8]?, unreadable: Int = 0) {
        self.rows = rows
        self.next = next
        self.unreadable = unreadable
    }
}
