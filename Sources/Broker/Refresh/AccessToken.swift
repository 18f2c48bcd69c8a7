/// An access token to use now, for the relay and for token exchange.
///
/// A class, because a cached session hands the same one to call after call.
package final class AccessToken: Sendable {
    package let token: Secret
    package let credential: TokenSet.Credential
    package let expiresAt: WallTime?
    package let scope: [String]
    /// The token set's version: an upstream that refuses this token asks for a newer one than this.
    package let version: Int64
    package let issuedAt: WallTime

    init(
        token: Secret, credential: TokenSet.Credential, expiresAt: WallTime?, scope: [String], version: Int64,
        issuedAt: WallTime
    ) {
        self.token = token
        self.credential = credential
        self.expiresAt = expiresAt
        self.scope = scope
        self.version = version
        self.issuedAt = issuedAt
    }
}
