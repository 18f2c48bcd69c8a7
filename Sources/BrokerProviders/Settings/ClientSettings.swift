package import Broker

/// One entry of `providers.NAME.clients:` as the wire needs it.
package struct ClientSettings: Sendable {
    /// The part that the domain knows: `redirect_uris`, `scope`, `login`, `transport`, `pkce`, `nonce`, `native_code`,
    /// `import_tokens`, `allowed_parameters`, `callback_parameters`, `social_providers`, `platform`.
    package var profile: ClientProfile
    /// `client_id`.
    package var clientID: String
    /// `auth`, with `client_secret`, `private_key` or `apple`.
    package var authentication: ClientAuthentication
    /// `app_start: {sdk_version}`: what Clever's own app is told, where a login may be opened in it; nil where it may not.
    package var appStart: String?
    /// `post_logout_redirect_uri`: where the provider's log-out page sends the browser; nil where it stays there.
    package var postLogoutRedirectURI: String?
    /// `trusted_audiences`: the ids of the same project's other registrations, whose id_tokens its SDKs may give this
    /// client's app.
    package var trustedAudiences: [String] = []
    /// The wire settings: the provider's, overridden by the client's.
    package var wire: WireSettings

    package init(
        profile: ClientProfile, clientID: String, authentication: ClientAuthentication = .none,
        wire: WireSettings = WireSettings(), appStart: String? = nil
    ) {
        self.profile = profile
        self.clientID = clientID
        self.authentication = authentication
        self.wire = wire
        self.appStart = appStart
    }
}

/// The way in which a client proves itself to the provider (`auth`); exactly one per client (SEC-18).
package enum ClientAuthentication: Sendable {
    /// `none`: a public client; its id goes in the body.
    case none
    /// `client_secret_basic`, with `client_secret`.
    case clientSecretBasic(Secret)
    /// `client_secret_post`, with `client_secret`.
    case clientSecretPost(Secret)
    /// `blank_secret_basic`: `base64(id + ":")`, Clever's legacy iOS client. An empty secret is not an absent one.
    case blankSecretBasic
    /// `client_secret_jwt`, with `client_secret` (RFC 7523, HS256).
    case clientSecretJWT(Secret)
    /// `private_key_jwt`, with `private_key` (RFC 7523); `assertion` says how it looks.
    case privateKeyJWT(SigningKey)
    /// `apple`: a client secret made as an ES256 JWT and renewed.
    case apple(teamID: String, keyID: String, key: Secret)

    /// The method's registered name (RFC 7591 section 2).
    package var method: String {
        switch self {
        case .none: "none"
        case .clientSecretBasic, .blankSecretBasic: "client_secret_basic"
        case .clientSecretPost, .apple: "client_secret_post"
        case .clientSecretJWT: "client_secret_jwt"
        case .privateKeyJWT: "private_key_jwt"
        }
    }

    /// Returns the way among a server's `methods` for one of its endpoints: this one where it is listed, else another that
    /// the same credential can be shown in.
    func among(_ methods: [String]?) -> ClientAuthentication {
        guard let methods, !methods.isEmpty, !methods.contains(method) else { return self }
        let secret: Secret
        switch self {
        case .clientSecretBasic(let own), .clientSecretPost(let own), .clientSecretJWT(let own): secret = own
        case .none, .blankSecretBasic, .privateKeyJWT, .apple: return self
        }
        let ways: [ClientAuthentication] = [
            .clientSecretBasic(secret), .clientSecretPost(secret), .clientSecretJWT(secret),
        ]
        return ways.first { methods.contains($0.method) } ?? self
    }
}
