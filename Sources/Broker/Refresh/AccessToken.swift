/// An access token to use now, for the relay and for token exchange.
package struct AccessToken: Sendable {
    package let token: Secret
    package let credential: TokenSet.Credential
    package let expiresAt: WallTime?
    package let scope: [String]
    /// The token set's version: an upstream that refuses this token asks for a newer one than this.
    package let version: Int64
    package let issuedAt: WallTime
}
