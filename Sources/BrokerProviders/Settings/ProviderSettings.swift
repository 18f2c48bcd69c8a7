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
    /// Without discovery, every endpoint comes from `endpoints`.
    package var discovery: Bool
    /// `endpoints`: further endpoints, and replacements for endpoints in the metadata.
    package var endpoints: EndpointSettings
    /// `allow_private`: whether this provider may be reached at private addresses (SEC-74).
    package var allowPrivate: Bool
    /// `tls: {ca_file}` of the provider itself: trust roots in addition to the system's.
    ///
    /// These trust roots apply to the calls that show no client's certificate: metadata, keys, the log-out page and the clock
    /// check.
    package var trust: TrustRoots?
    /// `timeout`, `max_in_flight` and the settings of the breaker.
    package var limits: CallLimits
    /// `session: {own}`; nil is `device` for Clover, whose subject is a merchant, and `subject` for other kinds.
    package var own: ProviderProfile.Ownership?
    /// `step_up`: the demands on a sign-in that the provider can fulfil.
    ///
    /// For the kind `oidc`, nil means all demands, unless a preset limits them. For other kinds, nil means none.
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
