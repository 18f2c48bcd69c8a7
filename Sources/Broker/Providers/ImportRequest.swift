/// An app's request to import tokens that it has.
package struct ImportRequest: Sendable {
    package var client: ClientName
    package var tokens: ImportedTokens
    /// The idempotency key, which is the same for each retry of this import.
    package var idempotencyKey: String

    package init(client: ClientName, tokens: ImportedTokens, idempotencyKey: String) {
        self.client = client
        self.tokens = tokens
        self.idempotencyKey = idempotencyKey
    }
}
