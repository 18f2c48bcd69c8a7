/// A provider that exchanges a session's access token for a token of another API (RFC 8693).
package protocol TokenExchanging: TokenRefreshing {
    /// Makes one token-exchange call. A refresh token in the answer belongs to another grant, and is left out of the result.
    func exchange(_ request: TargetExchange, by deadline: Duration) async throws(ProviderFailure) -> TokenSet
}
