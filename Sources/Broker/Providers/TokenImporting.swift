/// A provider for which the broker imports tokens that an app already has (Clover's PartialOAuth, Clever's SDK 1.x).
package protocol TokenImporting: CodeExchanging {
    /// Returns the member of `tokens` that is missing or refused; nil if the import may be tried.
    func importFault(_ tokens: ImportedTokens) -> FieldFault?

    /// Returns the tokens to store, after the provider has confirmed that the app's tokens belong to this client.
    ///
    /// Throws `rejected` for dead tokens and for tokens of another client.
    func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet

    /// Fetches the identity for imported tokens, which have no id_token.
    func identifyImported(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity
}
