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
