/// The access, refresh and id token that a provider issued, with their lifetimes.
///
/// A token set is always sealed at rest.
package struct TokenSet: Sendable {
    /// The form in which the access token is sent to an upstream.
    package enum Credential: String, Sendable {
        case bearer
        /// A Zephr session, sent as `Cookie: blaize_session=…`.
        case zephrCookie = "zephr_cookie"
        /// A token that is bound to a key of the broker, and sent only together with a proof (RFC 9449).
        case dpop
        /// A token that is bound to a certificate of the broker, and valid only on connections that show it (RFC 8705).
        case mtls

        /// Whether the token alone is useless to a thief.
        package var isBound: Bool { self == .dpop || self == .mtls }
    }

    package var credential: Credential
    package var accessToken: Secret
    package var refreshToken: Secret?
    package var idToken: Secret?
    /// The granted scope; nil if the answer left it out.
    package var scope: [String]?
    /// The expiry of the access token; nil if unknown.
    package var expiresAt: WallTime?
    /// The expiry of the refresh token; nil if unknown.
    package var refreshExpiresAt: WallTime?
    /// The key that the provider bound the tokens to, or nil.
    package var key: TokenKey?
    /// The thumbprint of the certificate that the access token is bound to (`x5t#S256`), or nil.
    package var certificate: String?
    /// The reason why the provider's answer cannot be used; nil for a usable one.
    ///
    /// The tokens of an unusable answer have to be revoked.
    ///
    /// The reason is never stored.
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

extension Secret {
    /// Whether the id_token is small enough to be stored with its session.
    ///
    /// Every use of the session reads all stored tokens, so a larger id_token is verified and then dropped. The log-out is then
    /// sent without `id_token_hint`.
    package var isKeptIDToken: Bool { reveal().utf8.count <= 16_384 }
}

extension TokenSet {
    /// Whether the access token is missing, because the last refresh brought an unbound one, which was dropped.
    package var isWithheld: Bool { key != nil && accessToken.isEmpty }

    /// Returns the set without its bindings, for revoking its tokens.
    ///
    /// A revocation needs no proof. The call shows the certificate that the client has at that time.
    package var withoutKey: TokenSet {
        var set = self
        set.key = nil
        set.certificate = nil
        if set.credential == .dpop || set.credential == .mtls { set.credential = .bearer }
        return set
    }

    /// Returns the set as bound to the certificate that was shown for it.
    ///
    /// A set that is bound to a key stays unchanged.
    package func bound(to certificate: String?) -> TokenSet {
        guard let certificate, key == nil, credential == .bearer else { return self }
        var set = self
        set.certificate = certificate
        set.credential = .mtls
        return set
    }

    /// Returns this set with the new refresh token from `answer`, whose access token is for another API.
    ///
    /// The access token and its properties stay unchanged.
    package func rotated(with answer: TokenSet) -> TokenSet {
        guard let refreshToken = answer.refreshToken else { return self }
        var set = self
        set.refreshToken = refreshToken
        set.refreshExpiresAt = answer.refreshExpiresAt
        return set
    }

    /// Returns this set, updated with the answer to a refresh.
    ///
    /// Members that the answer leaves out are kept, and so is the login's id_token. The scope may shrink but never grows
    /// (SEC-57).
    package func refreshed(with answer: TokenSet) -> TokenSet {
        var set = self
        set.accessToken = answer.accessToken
        if let key = answer.key {
            set.key = key
            set.credential = answer.credential
        }
        // The certificate that was shown for this access token decides its binding, even if the previous access token was
        // bound to another certificate.
        if answer.certificate != nil || certificate != nil {
            set.certificate = answer.certificate
            set.credential = answer.credential
        }
        set.expiresAt = answer.expiresAt
        if let refreshToken = answer.refreshToken {
            set.refreshToken = refreshToken
            set.refreshExpiresAt = answer.refreshExpiresAt
        }
        if let granted = answer.scope {
            set.scope = scope.map { before in granted.filter(before.contains) } ?? granted
        }
        return set
    }
}
