/// An append-only record of an administrative action, written before success is reported (SEC-99).
package struct AuditRow: Sendable, Equatable {
    package var at: WallTime
    /// The admin token's configured name.
    package var actor: String
    /// From a fixed set: `list_sessions`, `end_session`, `end_sessions`, `backup`, `reseal_keys`.
    package var action: String
    /// A keyed pseudonym of what it was done to.
    package var target: String
    package var outcome: String

    package init(at: WallTime, actor: String, action: String, target: String, outcome: String) {
        self.at = at
        self.actor = actor
        self.action = action
        self.target = target
        self.outcome = outcome
    }
}
