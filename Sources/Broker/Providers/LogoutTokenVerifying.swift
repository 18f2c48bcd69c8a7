/// A provider whose OIDC Back-Channel Logout tokens the broker verifies (SEC-66).
package protocol LogoutTokenVerifying: ProviderClient {
    /// Returns the session and user that a logout token names; throws `identityRejected` for any fault in it.
    ///
    /// `mayFetchKeys` decides whether newer keys are fetched for a token that fits no held key.
    func verifyLogoutToken(
        _ token: Secret, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> LogoutNotice
}
