/// A provider that can end a grant (RFC 7009 and its dialects).
package protocol TokenRevoking: ProviderClient {
    /// Revokes the refresh and the access token; a token that the provider does not know counts as revoked.
    func revoke(_ tokens: TokenSet, client: ClientName, by deadline: Duration) async throws(ProviderFailure)
}
