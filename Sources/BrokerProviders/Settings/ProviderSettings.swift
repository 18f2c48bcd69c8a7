package import Broker

/// One entry of `providers:`, with all settings that the provider clients need.
package struct ProviderSettings: Sendable {
    /// The entry's name.
    package var name: ProviderName
    /// `kind`, with the settings that only this kind has.
    package var service: Service
    /// `display_name`; the entry's name if absent.
    package var displayName: String?
    /// `issuer`: the whole URL, compared byte for byte, never rebuilt from parts (SEC-23).
    package var issuer: String?
    /// `callback_issuer`: the expected `iss` in callbacks if it differs from the issuer.
    ///
    /// The value is a text, or a template with one tenant segment in braces.
    package var callbackIssuer: String?
    /// `discovery`: whether metadata is fetched from the issuer.
    ///
    /// If it is off, every endpoint comes from `endpoints`.
    package var discovery: Bool
    /// `endpoints`: fixed endpoints, and replacements for discovered ones.
    package var endpoints: EndpointSettings
    /// `allow_private`: whether this provider may be reached at private addresses (SEC-74).
    package var allowPrivate: Bool
    /// `tls: {ca_file}` of the provider itself: trust roots in addition to the system's.
    ///
    /// They are for the calls that show no client's certificate: metadata, keys, the log-out page and the clock check.
    package var trust: TrustRoots?
    /// `timeout`, `max_in_flight` and the settings of the breaker.
    package var limits: CallLimits
    /// `session: {own}`; nil is `device` for Clover, whose subject is a merchant, and `subject` for other kinds.
    package var own: ProviderProfile.Ownership?
    /// `step_up`: the provider's abilities.
    ///
    /// For the kind `oidc`, nil means all abilities, unless a preset limits them. For other kinds, nil means none.
    package var stepUp: StepUpCapability?
    /// `clients`, in the file's order; at least one.
    package var clients: [ClientSettings]

    /// Creates the settings; `discovery` is on by default if there is an issuer.
    package init(
        name: ProviderName, service: Service, displayName: String? = nil, issuer: String? = nil,
        callbackIssuer: String? = nil, discovery: Bool? = nil, endpoints: EndpointSettings = EndpointSettings(),
        allowPrivate: Bool = false,
        limits: CallLimits = CallLimits(), own: ProviderProfile.Ownership? = nil, clients: [ClientSettings]
    ) {
        self.name = name
        self.service = service
        self.displayName = displayName
        self.issuer = issuer
        self.callbackIssuer = callbackIssuer
        self.discovery = discovery ?? (issuer != nil)
        self.endpoints = endpoints
        self.allowPrivate = allowPrivate
        self.limits = limits
        self.own = own
        self.clients = clients
    }

    /// The kind with its own settings; the cases are the closed list of kinds.
    package enum Service: Sendable {
        case oidc, oauth2
        case clever(CleverSettings)
        case clover(CloverSettings)
        case zephr(ZephrSettings)

        /// The kind.
        package var kind: ProviderKind {
            switch self {
            case .oidc: .oidc
            case .oauth2: .oauth2
            case .clever: .clever
            case .clover: .clover
            case .zephr: .zephr
            }
        }
    }

    /// The provider as the domain knows it.
    ///
    /// The subject's namespace is the issuer, or else the provider's name (SEC-33).
    package var profile: ProviderProfile {
        ProviderProfile(
            name: name, kind: service.kind, displayName: displayName ?? name.text, issuer: issuer ?? name.text,
            callbackIssuer: callbackIssuer ?? (issuer == nil ? nil : IssuerTemplate.issuer(of: self)),
            own: own ?? (service.kind == .clover ? .device : .subject), clients: clients.map(\.demandingProfile),
            stepUp: stepUp ?? (service.kind == .oidc ? .everything : .nothing))
    }
}

extension ClientSettings {
    /// The resources that the client's sign-ins request for other APIs (RFC 8707 section 2.1).
    ///
    /// Only targets that are fetched by a refresh add their resources.
    package var targetResources: [String] {
        Self.distinct(targets.filter { $0.grant == .refresh }.flatMap(\.resources))
    }

    /// The scope for other APIs that the client's sign-ins request in addition to the client's own.
    package var targetScope: [String] { Self.distinct(targets.filter { $0.grant == .refresh }.flatMap(\.scope)) }

    private static func distinct(_ texts: [String]) -> [String] {
        var seen: Set<String> = []
        return texts.filter { seen.insert($0).inserted }
    }

    /// The profile, including the demand on the sign-in from the client's own parameters.
    fileprivate var demandingProfile: ClientProfile {
        var profile = profile
        let asked = SignInDemands(wire.authorizationParameters)
        profile.configuredSignIn = StepUpDemand(contextClasses: asked.contextClasses, maximumAge: asked.maximumAge)
        return profile
    }
}

/// `endpoints`: each endpoint in the configuration overrides the one in the metadata.
package struct EndpointSettings: Sendable, Equatable {
    /// The setting `authorization`.
    package var authorization: EndpointURL?
    /// The setting `token`.
    package var token: EndpointURL?
    /// `refresh`: the address of refreshes if it differs from `token` (Clover).
    package var refresh: EndpointURL?
    /// The setting `userinfo`.
    package var userinfo: EndpointURL?
    /// The setting `jwks`.
    package var jwks: EndpointURL?
    /// `revocation`: a URL, which may have the placeholder `{client_id}` (GitHub).
    package var revocation: String?
    /// The setting `introspection`.
    package var introspection: EndpointURL?
    /// `end_session`: the address for ending the provider's own session.
    package var endSession: EndpointURL?
    /// The setting `par`.
    package var par: EndpointURL?
    /// `api`: the base of a provider's own API (Clever, Clover), ending before any final slash.
    package var api: EndpointURL?
    /// `recovery`: Clover's recovery call.
    package var recovery: EndpointURL?
    /// `migration`: Clover's address for exchanging legacy tokens, which never expire.
    package var migration: EndpointURL?

    package init(
        authorization: EndpointURL? = nil, token: EndpointURL? = nil, refresh: EndpointURL? = nil,
        userinfo: EndpointURL? = nil,
        jwks: EndpointURL? = nil, revocation: String? = nil, introspection: EndpointURL? = nil,
        endSession: EndpointURL? = nil,
        par: EndpointURL? = nil, api: EndpointURL? = nil, recovery: EndpointURL? = nil, migration: EndpointURL? = nil
    ) {
        self.authorization = authorization
        self.token = token
        self.refresh = refresh
        self.userinfo = userinfo
        self.jwks = jwks
        self.revocation = revocation
        self.introspection = introspection
        self.endSession = endSession
        self.par = par
        self.api = api
        self.recovery = recovery
        self.migration = migration
    }

    /// Returns the address for revoking a client's grants; nil unless a valid URL is set.
    func revocation(of clientID: String) -> EndpointURL? {
        (revocation?.replacing("{client_id}", with: FormPairs.encode(clientID))).flatMap(EndpointURL.init)
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
    /// `post_logout_redirect_uri`: the next address after the provider's log-out page; nil if the browser stays there.
    package var postLogoutRedirectURI: String?
    /// `redirect_name`: the text sent as `redirect_uri`, if the provider identifies a redirect URI by a name (eBay's
    /// RuName).
    package var redirectName: String?
    /// `trusted_audiences`: the ids of the project's other registrations.
    ///
    /// The provider's SDKs may give their id_tokens to this client's app.
    package var trustedAudiences: [String] = []
    /// The wire settings: the provider's, overridden by the client's.
    package var wire: WireSettings
    /// The further APIs that access tokens of the client's sessions may be for, each once (`upstreams.NAME.token`,
    /// `backends.NAME.tokens`).
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

/// A client's method of authentication to the provider (`auth`); exactly one per client (SEC-18).
package enum ClientAuthentication: Sendable {
    /// `none`: a public client, whose id is in the body.
    case none
    /// `client_secret_basic`, with `client_secret`.
    case clientSecretBasic(Secret)
    /// `client_secret_post`, with `client_secret`.
    case clientSecretPost(Secret)
    /// `blank_secret_basic`: `base64(id + ":")` for Clever's legacy iOS client.
    ///
    /// An empty secret differs from an absent one.
    case blankSecretBasic
    /// `client_secret_jwt`, with `client_secret` (RFC 7523, HS256).
    case clientSecretJWT(Secret)
    /// `private_key_jwt`, with `private_key` (RFC 7523) in the form of `assertion`.
    case privateKeyJWT(SigningKey)
    /// `tls_client_auth` (RFC 8705 section 2.1): the connection's certificate, recognised by a registered name.
    case tlsClientAuth
    /// `self_signed_tls_client_auth` (section 2.2): the connection's certificate, which is itself registered.
    case selfSignedTLSClientAuth
    /// `apple`: a client secret that is an ES256 JWT, made for each call.
    case apple(teamID: String, keyID: String, key: Secret)

    /// The method's registered name (RFC 7591 section 2).
    package var method: String {
        switch self {
        case .none: "none"
        case .clientSecretBasic, .blankSecretBasic: "client_secret_basic"
        case .clientSecretPost, .apple: "client_secret_post"
        case .clientSecretJWT: "client_secret_jwt"
        case .privateKeyJWT: "private_key_jwt"
        case .tlsClientAuth: "tls_client_auth"
        case .selfSignedTLSClientAuth: "self_signed_tls_client_auth"
        }
    }

    /// Returns the method to use at an endpoint, from the methods that the server lists for it.
    ///
    /// The result is this method if the list has it, or else another method with the same credential.
    func among(_ methods: [String]?) -> ClientAuthentication {
        guard let methods, !methods.isEmpty, !methods.contains(method) else { return self }
        let secret: Secret
        switch self {
        case .clientSecretBasic(let own), .clientSecretPost(let own), .clientSecretJWT(let own): secret = own
        case .none, .blankSecretBasic, .privateKeyJWT, .tlsClientAuth, .selfSignedTLSClientAuth, .apple: return self
        }
        let ways: [ClientAuthentication] = [
            .clientSecretBasic(secret), .clientSecretPost(secret), .clientSecretJWT(secret),
        ]
        return ways.first { methods.contains($0.method) } ?? self
    }
}
