/// Keeps pending logins.
package protocol LoginStore: Sendable {
    /// Adds a login unless a cap is reached, counted and written in one transaction.
    func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion

    /// Returns the login of a state digest, whatever its status, until it is swept.
    func login(state: Digest) async throws(StoreFailure) -> LoginRow?

    /// Returns the pending, unexpired logins of a login token, newest first, at most 32.
    func pendingLogins(loginTokenDigest: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow]

    /// Burns a login that is still pending; false when it was not. One conditional statement (SEC-124).
    func burnLogin(state: Digest) async throws(StoreFailure) -> Bool
}

/// The result of storing a new login.
package enum LoginInsertion: Sendable, Equatable { case inserted, tooManyForToken, tooManyPending }

/// Keeps handoffs.
///
/// An exchange that takes a login keeps the login's handoff as long as itself.
package protocol HandoffStore: Sendable {
    /// Keeps a handoff for its login; false, with nothing changed, while another one of the login lives at
    /// `row.createdAt`. The same one again is kept as it stands. One conditional statement decides (SEC-124).
    func keepHandoff(_ row: HandoffRow) async throws(StoreFailure) -> Bool

    /// Returns the handoff of a key, until it is swept.
    func handoff(_ key: Digest) async throws(StoreFailure) -> HandoffRow?

    /// Returns the handoff of a login's state digest, until it is swept.
    func handoff(login: Digest) async throws(StoreFailure) -> HandoffRow?
}

/// Keeps partial registrations.
///
/// They are written by `settleExchange` and taken by an exchange's gate.
package protocol RegistrationStore: Sendable {
    /// Returns the registration of a key, whatever its status, until it is swept.
    func registration(_ key: Digest) async throws(StoreFailure) -> RegistrationRow?

    /// Adds a registration that no exchange began (a client with `login: app | both`), unless one of the key stands.
    func insertRegistration(_ row: RegistrationRow) async throws(StoreFailure)
}
