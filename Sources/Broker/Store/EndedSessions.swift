/// The sessions that ended because a new session was stored.
package struct EndedSessions: Sendable, Equatable {
    /// The old session of the same device, if it was still alive.
    package var replaced: [Digest]
    /// The oldest sessions beyond the limit on sessions.
    package var beyondLimit: [Digest]

    package init(replaced: [Digest] = [], beyondLimit: [Digest] = []) {
        self.replaced = replaced
        self.beyondLimit = beyondLimit
    }
}
