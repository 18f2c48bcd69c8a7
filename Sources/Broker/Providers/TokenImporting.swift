/// A provider whose tokens the broker can import from an app.
package protocol TokenImporting: CodeExchanging {
    /// Returns the member of `tokens` that is missing or refused; nil if the import may be tried.
    func importFault(_ tokens: ImportedTokens, client: ClientName) -> FieldFault?

    /// Whether `takeOver` spends the app's token, so that its answer exists only one time.
    ///
    /// Otherwise `takeOver` only asks about the token, and may be repeated.
    var spendsImportedTokens: Bool { get }

    /// Returns the client's id at the provider.
    func clientID(of client: ClientName) -> String

    /// Returns the tokens to store, after the provider has confirmed that the app's tokens belong to this client.
    ///
    /// Throws `rejected` with `invalid_grant` for dead tokens, and with another code for tokens of another client.
    ///
    /// Throws `lost` if the call may have reached the provider, and a usable answer is missing. Throws `retryable` for a 4xx that
    /// lacks an OAuth error.
    func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet

    /// Fetches the identity of the user whom the provider granted `tokens` for.
    ///
    /// Throws `identityRejected` if the app's own id_token is another user's.
    func identifyImported(
        _ tokens: TokenSet, of imported: ImportedTokens, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity
}
