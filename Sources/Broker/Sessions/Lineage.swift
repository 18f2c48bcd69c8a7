/// The parent of a child session's row, and the digest of the child's kind and name.
///
/// The type is a class, so that the many cached rows of top-level sessions store only a nil reference.
package final class Lineage: Sendable, Equatable {
    /// The digest of the parent's token.
    package let parent: Digest
    /// The index digest of (parent, kind, name).
    ///
    /// At most one unended child has this digest at a time.
    package let place: Digest

    package init(parent: Digest, place: Digest) {
        self.parent = parent
        self.place = place
    }

    package static func == (left: Lineage, right: Lineage) -> Bool {
        left.parent == right.parent && left.place == right.place
    }
}
