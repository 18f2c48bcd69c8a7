/// The limits on pending logins (SEC-119).
///
/// At a limit, new logins are refused, and pending ones stay.
package struct LoginLimits: Sendable, Equatable {
    package var pending: Int
    package var pendingPerToken: Int

    package init(pending: Int = 100_000, pendingPerToken: Int = 8) {
        self.pending = pending
        self.pendingPerToken = pendingPerToken
    }
}
