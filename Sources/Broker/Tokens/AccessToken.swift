/// An access token that can be used now, for the relay and for token exchange.
///
/// The type is a class, so that a cached session shares one object between its calls.
package final class AccessToken: Sendable {
    package let token: Secret
    package let credential: TokenSet.Credential
    /// The key that the token is bound to, or nil.
    package let key: ProofKeyPair?
    /// The thumbprint of the certificate that the token is bound to, or nil.
    package let certificate: String?
    package let expiresAt: WallTime?
    package let scope: [String]
    /// The version of the token set that contains the token.
    ///
    /// If an upstream refuses this token, a newer version is requested.
    package let version: Int64
    package let issuedAt: WallTime

    package init(
        token: Secret, credential: TokenSet.Credential, key: ProofKeyPair? = nil, certificate: String? = nil,
        expiresAt: WallTime?, scope: [String], version: Int64, issuedAt: WallTime
    ) {
        self.key = key
        self.certificate = certificate
        self.token = token
        self.credential = credential
        self.expiresAt = expiresAt
        self.scope = scope
        self.version = version
        self.issuedAt = issuedAt
    }
}
