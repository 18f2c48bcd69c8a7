/// A provider whose id_tokens from native SDKs the broker accepts (Google's Credential Manager, Sign in with Apple, Facebook's
/// Limited Login).
package protocol IDTokenTaking: ProviderClient {
    /// Returns whether the keys and the issuer for verifying a client's id_tokens are known.
    func takesIDTokens(of client: ClientName) -> Bool

    /// Verifies an id_token and returns its user. The only possible call to the provider fetches its keys.
    ///
    /// `mayFetchKeys` decides whether newer keys are fetched for a token that fits no held key. Throws `identityRejected` for
    /// any fault in the token.
    func identify(
        _ token: HandedIDToken, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> ProviderIdentity
}
