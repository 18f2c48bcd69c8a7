/// The tokens that a provider issued: access, refresh and id token with their lifetimes.
///
/// Always sealed at rest.
package struct TokenSet: Sendable {
    /// The way in which an upstream takes the access token.
    package enum Credential: String, Sendable {
        case bearer
        /// A Zephr session, sent as `Cookie: blaize_session=…`.
        case zephrCookie = "zephr_cookie"
        /// An access token that is bound to a key of ours, and goes out with its proof or not at all (RFC 9449).
        case dpop
        /// An access token that is bound to a certificate of ours, and good only on connections that show it (RFC 8705).
        case mtls

        /// Whether it is of use to nobody who has it alone.
        package var isBound: Bool { self == .dpop || self == .mtls }
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
    /// The key that the provider bound them to; nil for tokens of whoever has them.
    package var key: TokenKey?
    /// The thumbprint of the certificate that was shown for the access token, where it is bound to it (`x5t#S256`).
    package var certificate: String?
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

extension Secret {
    /// Whether an id_token is stored with its session.
    ///
    /// A larger one is verified and then forgotten, because every use of the session reads what is stored: such a log-out goes
    /// without `id_token_hint`.
    package var isKeptIDToken: Bool { reveal().utf8.count <= 16_384 }
}

/// A key that a provider bound tokens to.
package struct TokenKey: Sendable {
    package var pair: ProofKeyPair
    /// Whether the provider's token endpoint has given nonces: without one a refresh may be refused.
    package var usesNonces: Bool

    package init(pair: ProofKeyPair, usesNonces: Bool = false) {
        self.pair = pair
        self.usesNonces = usesNonces
    }
}

extension TokenSet {
    /// Whether there is no access token to use: the last refresh was answered without binding it to the key, and it was not
    /// kept.
    package var isWithheld: Bool { key != nil && accessToken.isEmpty }

    /// Returns the set without what it is bound to: what is only to be revoked needs no proof, and has whatever certificate
    /// its client shows by then.
    package var withoutKey: TokenSet {
        var set = self
        set.key = nil
        set.certificate = nil
        if set.credential == .dpop || set.credential == .mtls { set.credential = .bearer }
        return set
    }

    /// Returns the set as bound to the certificate that was shown for it; one that is bound to a key stays so.
    package func bound(to certificate: String?) -> TokenSet {
        guard let certificate, key == nil, credential == .bearer else { return self }
        var set = self
        set.certificate = certificate
        set.credential = .mtls
        return set
    }

    /// Returns this set with the refresh token of an answer that is for another API: the access token stays, and what is said of
    /// it.
    package func rotated(with answer: TokenSet) -> TokenSet {
        guard let refreshToken = answer.refreshToken else { return self }
        var set = self
        set.refreshToken = refreshToken
        set.refreshExpiresAt = answer.refreshExpiresAt
        return set
    }

    /// Returns this set with a refresh's answer laid over it: what the answer leaves out stays, the scope may shrink and
    /// never grows (SEC-57), and the id_token of the login stays.
    package func refreshed(with answer: TokenSet) -> TokenSet {
        var set = self
        set.accessToken = answer.accessToken
        if let key = answer.key {
            set.key = key
            set.credential = answer.credential
        }
        // An access token is bound to the certificate that was shown for it, or to none, whatever its predecessor was.
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
