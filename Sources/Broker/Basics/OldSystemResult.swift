/// The result of a question to the old system, as `coatcheck_old_system_answers_total` counts it.
package enum OldSystemResult: String, Sendable, CaseIterable {
    /// The old system described a session that can be moved.
    case found
    /// The old system lacks the session, or the move of the session is impossible.
    case refused
    /// A usable answer is missing.
    case unavailable
}
