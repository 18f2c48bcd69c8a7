/// The tokens that a provider issued: access, refresh and id token with their lifetimes.
///
/// Always sealed at rest.
package struct TokenSet: Sendable {
    /// The way in which an upstream takes the access token.
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
    /// The end of the access token; nil when unknown.
    package var expiresAt: WallTime?
    /// The end of the refresh token; nil when unknown.
    package var refreshExpiresAt: WallTime?
    /// The reason for which the answer that brought these tokens cannot be used; they are to be revoked.
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

extension TokenSet {
    /// Returns this set with a refresh's answer laid over it: what the answer leaves out stays, the scope may shrink and
    /// never grows (SEC-57), and the id_token of the login stays.
    package func refreshed(with answer: TokenSet) -> TokenSet {
        var set = self
        set.accessToken = answer.accessToken
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

/// The owner of tokens, and the sign-in at the provider that they came from: index digests, as a session row has them.
package struct SignInOrigin: Sendable, Equatable {
    /// Index digest of (issuer, subject).
    package var subject: Digest
    /// Index digest of (issuer, `sid`); nil where the provider sends none.
    package var sid: Digest?

    package init(subject: Digest, sid: Digest?) {
        self.subject = subject
        self.sid = sid
    }

    /// Creates the origin of a session's tokens.
    package init(_ row: SessionRow) { self.init(subject: row.subject, sid: row.sid) }
}
