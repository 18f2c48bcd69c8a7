package import Broker

extension ClientSettings {
    /// The resources that the client's sign-ins request for other APIs (RFC 8707 section 2.1).
    ///
    /// Only targets that are fetched by a refresh add their resources.
    package var targetResources: [String] {
        Self.distinct(targets.filter { $0.grant == .refresh }.flatMap(\.resources))
    }

    /// The scope for other APIs that the client's sign-ins request in addition to the client's own scope.
    package var targetScope: [String] { Self.distinct(targets.filter { $0.grant == .refresh }.flatMap(\.scope)) }

    private static func distinct(_ texts: [String]) -> [String] {
        var seen: Set<String> = []
        return texts.filter { seen.insert($0).inserted }
    }

    /// The profile, including the demand on the sign-in that the client's `authorization_parameters` contain.
    var demandingProfile: ClientProfile {
        var profile = profile
        let asked = SignInDemands(wire.authorizationParameters)
        profile.configuredSignIn = StepUpDemand(contextClasses: asked.contextClasses, maximumAge: asked.maximumAge)
        return profile
    }
}

/// One entry of `providers.NAME.clients:`, with all settings that the provider clients need.
package struct ClientSettings: Sendable {
    /// The settings that the domain needs: `redirect_uris`, `scope`, `login`, `transport`, `pkce`, `nonce`, `native_code`,
    /// `import_tokens`, `allowed_parameters`, `callback_parameters`, `social_providers`, `platform`.
    package var profile: ClientProfile
    /// `client_id`.
    package var clientID: String
    /// `auth`, with `client_secret`, `private_key` or `apple`.
    package var authentication: ClientAuthentication
    /// `app_start: {sdk_version}`: the version for Clever's own app, if a login may open in it; nil otherwise.
    package var appStart: String?
    /// `post_logout_redirect_uri`: the address that the provider's log-out page redirects to; nil if the browser stays on that
    /// page.
    package var postLogoutRedirectURI: String?
    /// `redirect_name`: the text sent as `redirect_uri`, if the provider identifies a redirect URI by a name (eBay's
    /// RuName).
    package var redirectName: String?
    /// `trusted_audiences`: the client ids of the operator's other registrations at the provider.
    ///
    /// The provider's SDKs may give this client's app id_tokens that were issued to one of these ids.
    package var trustedAudiences: [String] = []
    /// `move_in: {from}`: the server that the app had before, if there is one.
    package var oldSystem: OldSystemSettings?
    /// The provider's wire settings, overridden by the client's.
    package var wire: WireSettings
    /// The other APIs that the client's sessions may get access tokens for (`upstreams.NAME.token`, `backends.NAME.tokens`).
    ///
    /// Each API is listed once.
    package var targets: [TokenTarget] = []

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
