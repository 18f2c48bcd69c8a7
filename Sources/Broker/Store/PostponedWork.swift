/// An outbox row that is postponed until a time.
package struct PostponedWork: Sendable, Equatable {
    package let id: Digest
    package let until: WallTime

    package init(id: Digest, until: WallTime) {
        self.id = id
        self.until = until
    }
}
