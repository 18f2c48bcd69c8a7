/// The sessions that ended because a new session was stored.
package struct EndedSessions: Sendable, Equatable {
    /// The old session of the same device, if it was still alive.
    package var replaced: [Digest]
    /// The oldest sessions of the user with the client, which ended because the limit on sessions was exceeded.
    package var beyondLimit: [Digest]

    package init(replaced: [Digest] = [], beyondLimit: [Digest] = []) {
        self.replaced = replaced
        self.beyondLimit = beyondLimit
    }
}
