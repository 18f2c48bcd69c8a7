/// A Zephr partial registration that waits for its attributes.
///
/// One use, 15 minutes, bound to its starter.
package struct RegistrationRow: Sendable, Equatable {
    package enum Status: Int, Sendable {
        case open = 0
        /// Taken by an exchange.
        case claimed = 1
        /// Completed or given up.
        case closed = 2
    }

    /// Index digest of (provider, state key): the key.
    package var key: Digest
    /// SHA-256 of the starter's login token; nil when no login began it.
    package var loginToken: Digest?
    package var createdAt: WallTime
    package var expiresAt: WallTime
    package var status: Status
    /// The exchange that took it last.
    package var exchange: Digest?
    /// Completions that the provider answered with bad attributes; one resubmission is allowed.
    package var attempts: Int
    /// `RegistrationSecrets`, sealed as `.registration` for the row `key`.
    package var sealed: Sealed

    package init(
        key: Digest, loginToken: Digest?, createdAt: WallTime, expiresAt: WallTime, status: Status = .open,
        exchange: Digest? = nil, attempts: Int = 0, sealed: Sealed
    ) {
        self.key = key
        self.loginToken = loginToken
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.status = status
        self.exchange = exchange
        self.attempts = attempts
        self.sealed = sealed
    }
}
