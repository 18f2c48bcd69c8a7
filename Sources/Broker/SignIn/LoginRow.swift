/// A pending login as stored.
///
/// A login can be used only one time and lives 10 minutes. Its row is kept for another day, so that a late callback gets
/// `login_expired`.
package struct LoginRow: Sendable, Equatable {
    package enum Status: Int, Sendable {
        /// The login waits for its callback.
        case pending = 0
        /// The exchange in `exchange` has used up the login.
        case claimed = 1
        /// The login was ended by an error callback, or because a party other than its starter tried to finish it.
        case burned = 2
    }

    /// The SHA-256 of the state; the row's key.
    package var state: Digest
    /// The SHA-256 of the login token.
    package var loginTokenDigest: Digest
    /// The public id (`lgn_…`), which the app gets again with the handoff.
    package var loginID: String
    package var createdAt: WallTime
    package var expiresAt: WallTime
    package var status: Status
    /// The exchange that used up the login.
    package var exchange: Digest?
    /// `LoginSecrets`, sealed as `.login` for the row `state`.
    package var sealed: Sealed

    package init(
        state: Digest, loginTokenDigest: Digest, loginID: String, createdAt: WallTime, expiresAt: WallTime,
        status: Status = .pending, exchange: Digest? = nil, sealed: Sealed
    ) {
        self.state = state
        self.loginTokenDigest = loginTokenDigest
        self.loginID = loginID
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.status = status
        self.exchange = exchange
        self.sealed = sealed
    }
}
