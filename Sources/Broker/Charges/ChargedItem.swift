/// What a caller without a session is charged for.
package enum ChargedItem: Sendable, CaseIterable {
    /// A started login: its row, and the provider's pushed authorization request.
    case login
    /// An exchange that no login of the broker's began (flow B): its row and its calls at the provider.
    case exchange
    /// A partial registration that waits for its attributes.
    case registration
    /// A hosted callback that waits for its app.
    case handoff
}
