/// The result of inserting a child.
package enum ChildInsertion: Sendable, Equatable {
    /// The child exists; `replaced` has the digest of the child that had the same place, if that child was alive.
    case made(replaced: [Digest])
    /// All places for children in the parent's family are taken.
    case full
    /// The parent is missing, has ended, has lapsed, or is itself a child.
    case parentEnded
}
