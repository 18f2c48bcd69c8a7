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
