/// An append-only record of an administrative action, written before success is reported (SEC-99).
package struct AuditRow: Sendable, Equatable {
    package var at: WallTime
    /// The configured name of the admin token, or the `--by` of a command; `session` if the session itself acted.
    package var actor: String
    /// The action's name, one of `end_session`, `end_sessions`, `backup`, `reseal_keys`, `export_sessions`, `end_exported`,
    /// `import_sessions`, `first_import` and `session.presence_key_changed`.
    package var action: String
    /// The object of the action, such as a handle, a provider and client with a keyed pseudonym of a subject, or `store`.
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
