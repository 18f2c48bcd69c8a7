/// A column that holds sealed values.
package enum SealedPlace: String, Sendable, CaseIterable {
    case facts, tokens, presence, logins, handoffs, registrations, outbox
    case targetTokens = "audiences"
    case importPairs = "import_pairs"

    /// The kind of the sealed values in this column.
    package var kind: SealedKind {
        switch self {
        case .facts: .session
        case .tokens, .outbox, .importPairs: .tokens
        case .presence: .presence
        case .logins: .login
        case .handoffs: .outcome
        case .registrations: .registration
        case .targetTokens: .targetToken
        }
    }
}
