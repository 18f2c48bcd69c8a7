/// Keeps partial registrations.
///
/// They are written by `settleExchange` and taken by an exchange's gate.
package protocol RegistrationStore: Sendable {
    /// Returns the registration of a key, whatever its status, until it is swept.
    func registration(_ key: Digest) async throws(StoreFailure) -> RegistrationRow?

    /// Adds a registration that no exchange began (a client with `login: app | both`), unless one of the key stands.
    func insertRegistration(_ row: RegistrationRow) async throws(StoreFailure)
}
