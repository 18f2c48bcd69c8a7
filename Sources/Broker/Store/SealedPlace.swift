/// A column that holds sealed values.
package enum SealedPlace: String, Sendable, CaseIterable {
    case facts, tokens, logins, handoffs, registrations, outbox

    /// What a value there is sealed as.
    package var kind: SealedKind {
        switch self {
        case .facts: .session
        case .tokens, .outbox: .tokens
        case .logins: .login
        case .handoffs: .outcome
        case .registrations: .registration
        }
    }
}
