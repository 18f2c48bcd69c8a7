/// Tells what the clock of a store says that several processes share.
///
/// A store within the process has no other clock than the process and does not conform.
package protocol StoreClock: Sendable {
    /// Returns the store's time, as it is now.
    func time() async throws(StoreFailure) -> WallTime
}
