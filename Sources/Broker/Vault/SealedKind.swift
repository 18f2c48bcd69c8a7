/// Says what a sealed value is.
///
/// It is part of the associated data, so a value moved to another column or table does not open (SEC-48), and it has a
/// key of its own derived from the ring's key (SEC-110).
package enum SealedKind: String, Sendable, CaseIterable {
    case login
    case session
    case tokens
    case registration
    case outcome
    case outbox
}
