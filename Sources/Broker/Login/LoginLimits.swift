/// How many logins may be pending (SEC-119).
///
/// Reaching a cap refuses new ones; nothing live is evicted.
package struct LoginLimits: Sendable, Equatable {
    package var pending: Int
    package var pendingPerToken: Int

    package init(pending: Int = 100_000, pendingPerToken: Int = 8) {
        self.pending = pending
        self.pendingPerToken = pendingPerToken
    }
}
