/// The result of one step of ending sessions.
package struct EndedBatch: Sendable, Equatable {
    /// The digests of the ended sessions' tokens.
    package var ended: [Digest]
    /// Whether more sessions may be left to end.
    ///
    /// If so, the caller repeats the step.
    package var more: Bool
    /// Whether the endings are on disk.
    ///
    /// If not, this process refuses the sessions and keeps trying to write the endings.
    package var isWritten: Bool

    package init(ended: [Digest], more: Bool, isWritten: Bool = true) {
        self.ended = ended
        self.more = more
        self.isWritten = isWritten
    }
}
