/// Rows of one kind, in the order of their keys.
package struct StoredPage: Sendable, Equatable {
    package var rows: [StoredRow]
    /// Where to go on; nil after the last.
    package var next: [UInt8]?
    /// How many of the page cannot be read: damaged, or of a newer version.
    package var unreadable: Int

    package init(rows: [StoredRow], next: [UInt8]?, unreadable: Int = 0) {
        self.rows = rows
        self.next = next
        self.unreadable = unreadable
    }
}
