/// A stored hosted callback that waits for its app (flow C), or the ticket of a hand-over.
///
/// A login has at most one live row. A ticket's `login` is made from its session and one of eight numbers. So a session has at
/// most eight live tickets (decision 65).
package struct HandoffRow: Sendable, Equatable {
    /// For a handoff, the state digest of its login; for a ticket, a digest of the session and a number from 0 to 7.
    package var login: Digest
    /// The index digest of the handoff; the row's key.
    package var key: Digest
    package var createdAt: WallTime
    /// The end of the handoff's life.
    ///
    /// Until this time, the app may redeem the handoff, and another callback of the login is refused.
    package var expiresAt: WallTime
    /// The time until which the row is stored.
    ///
    /// When an exchange uses up the login, this time is extended, so that the outcome of the exchange can be repeated.
    package var keptUntil: WallTime
    /// `HandoffSecrets`, sealed as `.outcome` for the row `key`.
    package var sealed: Sealed

    package init(
        login: Digest, key: Digest, createdAt: WallTime, expiresAt: WallTime, keptUntil: WallTime, sealed: Sealed
    ) {
        self.login = login
        self.key = key
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.keptUntil = keptUntil
        self.sealed = sealed
    }
}
