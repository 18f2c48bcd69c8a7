/// Tokens of an app's to take over.
package struct ImportRequest: Sendable {
    package var client: ClientName
    package var tokens: ImportedTokens
    /// A key that stays the same for a retry of this very import.
    package var idempotencyKey: String

    package init(client: ClientName, tokens: ImportedTokens, idempotencyKey: String) {
        self.client = client
        self.tokens = tokens
        self.idempotencyKey = idempotencyKey
    }
}
