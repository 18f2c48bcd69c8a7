/// A token set with the provider and client it belongs to, as sealed in a session or outbox row: the outbox outlives
/// the session, so the record says by itself where to revoke.
package struct StoredTokens: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var tokens: TokenSet
    /// When the access token was issued: a short-lived one is refreshed later than a minute before its end.
    package var issuedAt: WallTime
    /// The id_token of the refresh, as long as its subject is unchecked.
    package var uncheckedIDToken: Secret?
    /// Whose they are, where no session row says it: tokens of an exchange that made no session.
    package var origin: SignInOrigin?

    package init(
        provider: ProviderName, client: ClientName, tokens: TokenSet, issuedAt: WallTime,
        uncheckedIDToken: Secret? = nil, origin: SignInOrigin? = nil
    ) {
        self.origin = origin
        self.uncheckedIDToken = uncheckedIDToken
        self.provider = provider
        self.client = client
        self.tokens = tokens
        self.issuedAt = issuedAt
    }
    /// Returns the access token, as that of a version of the session's token set.
    func access(version: Int64) -> AccessToken {
        AccessToken(
            token: tokens.accessToken, credential: tokens.credential, expiresAt: tokens.expiresAt,
            scope: tokens.scope ?? [], version: version, issuedAt: issuedAt)
    }
}
