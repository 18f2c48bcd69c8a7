/// A pending login as stored.
///
/// Single use, 10 minutes; rows are kept a day so that a late callback is `login_expired`.
package struct LoginRow: Sendable, Equatable {
    package enum Status: Int, Sendable {
        /// Waiting for its callback.
        case pending = 0
        /// Taken by the exchange in `exchange`.
        case claimed = 1
        /// Ended by a finish that was not its starter's, or by an error callback.
        case burned = 2
    }

    /// SHA-256 of the state: the key.
    package var state: Digest
    /// SHA-256 of the login token.
    package var loginToken: Digest
    /// The public id (`lgn_…`), for the handoff.
    package var loginID: String
    package var createdAt: WallTime
    package var expiresAt: WallTime
    package var status: Status
    /// The exchange that took it.
    package var exchange: Digest?
    /// `LoginSecrets`, sealed as `.login` for the row `state`.
    package var sealed: Sealed

    package init(
        state: Digest, loginToken: Digest, loginID: String, createdAt: WallTime, expiresAt: WallTime,
        status: Status = .pending, exchange: Digest? = nil, sealed: Sealed
    ) {
        self.state = state
        self.loginToken = loginToken
        self.loginID = loginID
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.status = status
        self.exchange = exchange
        self.sealed = sealed
    }
}
