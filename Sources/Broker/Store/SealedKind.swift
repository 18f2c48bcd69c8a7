/// The kind of a sealed value.
///
/// The kind is part of the associated data, so a value that was moved to another column or table fails to open (SEC-48). Each
/// kind has its own key, derived from the ring's key (SEC-110).
package enum SealedKind: String, Sendable, CaseIterable {
    case login
    case session
    case tokens
    case registration
    case outcome
    case outbox
    case presence
    /// An access token for another API than the session's own.
    case targetToken = "audience"
}
