/// Keeps pending logins.
package protocol LoginStore: Sendable {
    /// Adds a login unless a cap is reached, counted and written in one transaction.
    func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion

    /// Returns the login of a state digest, whatever its status, until it is swept.
    func login(state: Digest) async throws(StoreFailure) -> LoginRow?

    /// Returns the pending, unexpired logins of a login token, newest first, at most 32.
    func pendingLogins(loginToken: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow]

    /// Burns a login that is still pending; false when it was not. One conditional statement (SEC-124).
    func burnLogin(state: Digest) async throws(StoreFailure) -> Bool
}

/// What became of a new login.
package enum LoginInsertion: Sendable, Equatable { case inserted, tooManyForToken, tooManyPending }
