/// A provider that refreshes tokens (RFC 6749 section 6 and its dialects).
package protocol TokenRefreshing: ProviderClient {
    /// Makes one refresh call. A member that the answer leaves out (refresh token, scope) is nil in the result.
    func refresh(_ request: RefreshRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet

    /// Checks a refreshed id_token, if there is one, against the session's issuer and subject (SEC-59). `before` is the
    /// token set that was refreshed, which contains the login's id_token.
    func subjectOfRefreshed(
        _ tokens: TokenSet, before: TokenSet, client: ClientName
    ) async throws(ProviderFailure) -> RefreshedSubject
}
