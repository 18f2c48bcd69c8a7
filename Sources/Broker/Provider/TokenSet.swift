/// What a provider issued: access, refresh and id token with their lifetimes.
///
/// Always sealed at rest.
package struct TokenSet: Sendable {
    /// How an upstream takes the access token.
    package enum Credential: String, Sendable {
        case bearer
        /// A Zephr session, sent as `Cookie: blaize_session=…`.
        case zephrCookie = "zephr_cookie"
    }

    package var credential: Credential
    package var accessToken: Secret
    package var refreshToken: Secret?
    package var idToken: Secret?
    /// The granted scope; nil when the answer had none.
    package var scope: [String]?
    /// When the access token dies; nil when unknown.
    package var expiresAt: WallTime?
    /// When the refresh token dies; nil when unknown.
    package var refreshExpiresAt: WallTime?
    /// Why the answer that brought these tokens cannot be used; they are to be revoked.
    ///
    /// Never stored.
    package var refusal: String?

    package init(
        credential: Credential = .bearer, accessToken: Secret, refreshToken: Secret? = nil, idToken: Secret? = nil,
        scope: [String]? = nil, expiresAt: WallTime? = nil, refreshExpiresAt: WallTime? = nil
    ) {
        self.credential = credential
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.idToken = idToken
        self.scope = scope
        self.expiresAt = expiresAt
        self.refreshExpiresAt = refreshExpiresAt
    }
}
