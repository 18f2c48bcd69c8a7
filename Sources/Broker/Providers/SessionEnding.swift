/// A provider that can end the user's own session at the provider (OpenID Connect RP-Initiated Logout 1.0; decision 13).
package protocol SessionEnding: ProviderClient {
    /// Sends the id_token to the provider's log-out endpoint. Returns false if the endpoint or the id_token is missing.
    func endSession(
        _ tokens: TokenSet, client: ClientName, by deadline: Duration
    ) async throws(ProviderFailure) -> Bool

    /// Returns the provider's log-out page for the user's browser, without tokens in its address; nil if the provider has no
    /// such page.
    ///
    /// `state` is added if the page sends the browser back to the app.
    func logOutPage(_ tokens: TokenSet, client: ClientName, state: Secret) async throws(ProviderFailure) -> Secret?
}
