/// A Zephr partial registration that waits for its attributes.
///
/// The registration can be completed only one time, lives 15 minutes, and is bound to its starter.
package struct RegistrationRow: Sendable, Equatable {
    package enum Status: Int, Sendable {
        case open = 0
        /// An exchange has used up the registration.
        case claimed = 1
        /// The registration was completed or given up.
        case closed = 2
    }

    /// The index digest of (provider, state key); the row's key.
    package var key: Digest
    /// The SHA-256 of the starter's login token; nil if the registration began without a login.
    package var loginTokenDigest: Digest?
    package var createdAt: WallTime
    package var expiresAt: WallTime
    package var status: Status
    /// The last exchange that used up the registration.
    package var exchange: Digest?
    /// The number of completions whose attributes the provider refused; one resubmission is allowed.
    package var attempts: Int
    /// `RegistrationSecrets`, sealed as `.registration` for the row `key`.
    package var sealed: Sealed

    package init(
        key: Digest, loginTokenDigest: Digest?, createdAt: WallTime, expiresAt: WallTime, status: Status = .open,
        exchange: Digest? = nil, attempts: Int = 0, sealed: Sealed
    ) {
        self.key = key
        self.loginTokenDigest = loginTokenDigest
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.status = status
        self.exchange = exchange
        self.attempts = attempts
        self.sealed = sealed
    }
}
