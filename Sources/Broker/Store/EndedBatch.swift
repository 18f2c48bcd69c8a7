/// What one step of ending sessions came to.
package struct EndedBatch: Sendable, Equatable {
    /// The token digests of the sessions that it ended.
    package var ended: [Digest]
    /// Whether there may be more to end: the caller goes on.
    package var more: Bool
    /// Whether it is on disk; if not, this process refuses the sessions and goes on trying to write that they ended.
    package var isWritten: Bool

    package init(ended: [Digest], more: Bool, isWritten: Bool = true) {
        self.ended = ended
        self.more = more
        self.isWritten = isWritten
    }
}
