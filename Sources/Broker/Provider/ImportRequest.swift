/// Tokens of an app's to take over.
package struct ImportRequest: Sendable {
    package var client: ClientName
    package var tokens: ImportedTokens
    /// A key that stays the same for a retry of this very import.
    package var idempotencyKey: String
    /// The monotonic moment by which every call has ended; nil leaves only their own limits.
    package var deadline: Duration?

    package init(client: ClientName, tokens: ImportedTokens, idempotencyKey: String, deadline: Duration? = nil) {
        self.client = client
        self.tokens = tokens
        self.idempotencyKey = idempotencyKey
        self.deadline = deadline
    }
}
