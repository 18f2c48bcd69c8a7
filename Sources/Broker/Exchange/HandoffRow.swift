/// What a hosted callback left for its app (flow C): at most one live one a login.
package struct HandoffRow: Sendable, Equatable {
    /// The state digest of its login.
    package var login: Digest
    /// Index digest of the handoff: the key.
    package var key: Digest
    package var createdAt: WallTime
    /// Until when it may be redeemed, and another callback of the login is refused.
    package var expiresAt: WallTime
    /// Until when the row is kept; taking its login for an exchange moves it, so that the exchange can be repeated.
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
