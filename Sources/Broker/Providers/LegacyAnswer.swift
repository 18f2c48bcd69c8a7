/// The decision of the old system about a legacy token.
package enum LegacyAnswer: Sendable {
    /// The old system lacks the session.
    case refused
    case session(LegacySession)
}
