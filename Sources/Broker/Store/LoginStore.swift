/// Stores logins, and limits the number of pending logins.
package protocol LoginStore: Sendable {
    /// Counts the pending logins and adds a login unless a limit is reached, in one transaction.
    func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion

    /// Returns the login with a state digest, in any status, until it is swept.
    func login(state: Digest) async throws(StoreFailure) -> LoginRow?

    /// Returns the pending, unexpired logins with a login token, newest first, at most 32.
    func pendingLogins(loginTokenDigest: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow]

    /// Burns a pending login in one conditional statement (SEC-124); false if the login was not pending.
    func burnLogin(state: Digest) async throws(StoreFailure) -> Bool
}

/// Stores handoffs.
///
/// When an exchange uses up a login, the login's handoff is kept as long as the row of the exchange.
package protocol HandoffStore: Sendable {
    /// Stores the handoff of a login, in one conditional statement (SEC-124).
    ///
    /// Returns false and changes nothing while another handoff of the login is alive at `row.createdAt`. For a handoff that
    /// is already stored, the call returns true and leaves the row unchanged.
    func keepHandoff(_ row: HandoffRow) async throws(StoreFailure) -> Bool

    /// Returns the handoff with a key, until it is swept.
    func handoff(_ key: Digest) async throws(StoreFailure) -> HandoffRow?

    /// Returns the handoff of a login, by the login's state digest, until it is swept.
    func handoff(login: Digest) async throws(StoreFailure) -> HandoffRow?
}

/// Stores partial registrations.
///
/// `settleExchange` stores a registration, and a later exchange uses it up.
package protocol RegistrationStore: Sendable {
    /// Returns the registration with a key, in any status, until it is swept.
    func registration(_ key: Digest) async throws(StoreFailure) -> RegistrationRow?

    /// Stores a registration that the app itself started (a client with `login: app | both`), unless its key exists.
    func insertRegistration(_ row: RegistrationRow) async throws(StoreFailure)
}
