/// A configured provider as the domain knows it.
///
/// `BrokerProviders` handles the provider's protocol.
package struct ProviderProfile: Sendable {
    package let name: ProviderName
    package let kind: ProviderKind
    /// The provider's name for an app's button.
    package let displayName: String
    /// The namespace of the provider's subjects: the issuer, or else the provider's name (SEC-33).
    package let issuer: String
    /// The rule for `iss` in this provider's callbacks, as a text or a template; nil if the provider publishes no issuer.
    ///
    /// The namespace of subjects is `issuer`, and is independent of this rule.
    package let callbackIssuer: String?
    /// The sessions that a session's owner may list and end.
    package enum Ownership: String, Sendable {
        /// All sessions of the same subject.
        case subject
        /// Only the session itself, because the subject is a shop instead of a person.
        case device
    }

    /// The setting `session: {own}`.
    package let own: Ownership
    /// The clients, in the configuration's order; at least one.
    package let clients: [ClientProfile]
    /// The setting `step_up`: the demands on a sign-in that the provider can fulfil.
    package let stepUp: StepUpCapability

    package init(
        name: ProviderName, kind: ProviderKind, displayName: String, issuer: String, callbackIssuer: String? = nil,
        own: Ownership = .subject, clients: [ClientProfile], stepUp: StepUpCapability = .nothing
    ) {
        self.stepUp = stepUp
        self.name = name
        self.kind = kind
        self.displayName = displayName
        self.issuer = issuer
        self.callbackIssuer = callbackIssuer
        self.own = own
        self.clients = clients
    }

    /// Returns the client of a name, or nil.
    package func client(_ name: ClientName) -> ClientProfile? { clients.first { $0.name == name } }
}

/// The kind of service that a provider is.
///
/// The closed list of kinds; `ProviderCatalogue` makes a client for each.
package enum ProviderKind: String, Sendable, CaseIterable { case oidc, oauth2, clever, clover, zephr }

/// One client registration at a provider, as the domain sees it.
package struct ClientProfile: Sendable {
    /// The party that starts this client's logins: the broker, the app, or either.
    package enum LoginMode: String, Sendable { case broker, app, both }
    /// The way in which the app sends its session token.
    package enum Transport: String, Sendable { case cookie, bearer }
    /// Whether the provider accepts PKCE from this client.
    package enum PKCE: String, Sendable { case required, unsupported }

    package var name: ClientName
    package var login: LoginMode
    package var transport: Transport
    package var pkce: PKCE
    /// The registered redirect URIs; the first is the default.
    package var redirectURIs: [RedirectURI]
    /// The scope that a login requests by default; a login may request less, but not more.
    package var scope: [String]
    /// Whether the requested scope is assumed if an answer names no scope (`token_response.scope.when_absent`).
    package var assumesScope: Bool
    /// Whether an OpenID nonce is sent and required.
    package var nonce: Bool
    /// Whether codes of native SDKs are accepted (Google's serverAuthCode, Apple's authorizationCode).
    package var nativeCode: Bool
    /// The redirect URI's form in a native code's token request.
    ///
    /// Google requires an empty redirect URI, and Apple requires that the parameter is left out.
    package var nativeRedirect: CodeGrant.RedirectParameter
    /// Whether the app may import tokens that it already holds (Clover's PartialOAuth, Clever's SDK 1.x).
    package var importTokens: Bool
    /// Whether every callback, including errors, has to contain the exact issuer in `iss`.
    ///
    /// A profile can require this even if the provider's metadata promise less (RFC 9207).
    package var demandsIssuer = false
    /// The setting `sender_constrained`.
    package var senderConstraint = SenderConstraint.off
    /// Whether the app may have the provider's access token (`hand_out_access_token`).
    package var handsOutAccessToken = false
    /// The URL that the hosted callback sends the browser to (flow C); nil if this client does not use it.
    package var hostedCallbackTo: String?
    /// The names that a login request may add to the authorization request.
    package var allowedParameters: Set<String>
    /// Callback parameters kept as unverified identity (Clover's `employee_id`).
    package var callbackParameters: [String]
    /// Zephr's social providers; empty for other kinds.
    package var socialProviders: [String]
    /// Zephr's platform (`ios`, `android`, `web`); nil for other kinds.
    package var platform: String?
    package var lifetimes: SessionLifetimes
    /// The clock skew that is tolerated when the age of a sign-in is checked (`id_token: {leeway}`).
    package var signInLeeway = Duration.seconds(60)
    /// The demand that the configured `authorization_parameters` make on every sign-in, except for the step-up of a session.
    package var configuredSignIn = StepUpDemand()
    /// The rules for sessions that belong to a key of the device.
    package var binding = BindingPolicy()
    /// The kinds of child that the client's sessions may have.
    package var children: [ChildKind: ChildPolicy] = [:]
    /// The other tokens and sessions that the provider ends along with a revoked token of this client (`revocation:
    /// {reaches}`).
    package var revocationReach: RevocationReach

    /// Returns the registered redirect URI that a text matches, in the configured spelling.
    ///
    /// A loopback address gets the text's port.
    package func redirectURI(_ text: String) -> RedirectURI? {
        guard let uri = RedirectURI(registered: text) else { return nil }
        let name = uri.registration
        return redirectURIs.first { $0.registration.hasBytes(of: name) }?.spelled(for: uri)
    }

    package init(
        name: ClientName, login: LoginMode = .broker, transport: Transport = .cookie, pkce: PKCE = .required,
        redirectURIs: [RedirectURI], scope: [String] = [], assumesScope: Bool = false, nonce: Bool = false,
        nativeCode: Bool = false,
        nativeRedirect: CodeGrant.RedirectParameter = .omitted,
        importTokens: Bool = false, hostedCallbackTo: String? = nil, allowedParameters: Set<String> = [],
        callbackParameters: [String] = [], socialProviders: [String] = [], platform: String? = nil,
        lifetimes: SessionLifetimes = SessionLifetimes(), revocationReach: RevocationReach = .signIn
    ) {
        self.name = name
        self.login = login
        self.transport = transport
        self.pkce = pkce
        self.redirectURIs = redirectURIs
        self.scope = scope
        self.assumesScope = assumesScope
        self.nonce = nonce
        self.nativeCode = nativeCode
        self.nativeRedirect = nativeRedirect
        self.importTokens = importTokens
        self.hostedCallbackTo = hostedCallbackTo
        self.allowedParameters = allowedParameters
        self.callbackParameters = callbackParameters
        self.socialProviders = socialProviders
        self.platform = platform
        self.lifetimes = lifetimes
        self.revocationReach = revocationReach
    }
}

/// The setting `sender_constrained`, which decides how a provider's tokens are bound.
///
/// The setting applies when tokens are granted. Tokens that were bound stay bound, even if the setting is removed.
package enum SenderConstraint: String, Sendable, CaseIterable {
    /// Tokens are unbound, so any holder can use them.
    case off
    /// Tokens are bound to a key of the broker for each sign-in, which each use proves (RFC 9449).
    case dpop
    /// Tokens are bound to the client's certificate, which each use shows (RFC 8705).
    case mtls
}

/// The configured providers by name.
package struct ProviderDirectory: Sendable {
    /// All providers, in the configuration's order.
    package let all: [any ProviderClient]
    /// The registered redirect URIs with a query part, the longest first.
    package let redirectsWithQuery: [String]
    private let byName: [ProviderName: any ProviderClient]
    private let byRedirect: [String: (provider: ProviderName, client: ClientName)]
    /// The names of each provider's clients, for checking each use of a session.
    ///
    /// Copying a whole profile would be slower, because Swift counts each reference in it.
    private let clientNames: [ProviderName: [ClientName]]

    package init(_ clients: [any ProviderClient]) {
        all = clients
        byName = Dictionary(clients.map { ($0.profile.name, $0) }, uniquingKeysWith: { first, _ in first })
        clientNames = byName.mapValues { $0.profile.clients.map(\.name) }
        var redirects: [String: (provider: ProviderName, client: ClientName)] = [:]
        for provider in clients.map(\.profile) {
            for client in provider.clients {
                for uri in client.redirectURIs where redirects[uri.registration] == nil {
                    redirects[uri.registration] = (provider.name, client.name)
                }
            }
        }
        byRedirect = redirects
        redirectsWithQuery = redirects.keys.filter { $0.contains("?") }.sorted { $0.utf8.count > $1.utf8.count }
    }

    /// Returns the provider of a name, or nil.
    package subscript(_ name: ProviderName) -> (any ProviderClient)? { byName[name] }

    /// Returns whether the provider and its client are configured.
    package func has(_ provider: ProviderName, _ client: ClientName) -> Bool {
        clientNames[provider]?.contains(client) ?? false
    }

    /// Returns the client that registered a redirect URI; the configuration allows only one client for each.
    package func owner(ofRedirect target: String) -> (provider: ProviderName, client: ClientName)? {
        // Most texts already have the normalized spelling, so look up the text itself first.
        byRedirect[target] ?? RedirectURI(registered: target).flatMap { byRedirect[$0.registration] }
    }
}

/// The tokens and sessions that a provider ends along with a revoked token.
package enum RevocationReach: String, Sendable, CaseIterable {
    /// Only the token's own grant.
    case token
    /// Every grant of the same sign-in at the provider.
    case signIn = "sign_in"
    /// Every grant of the user.
    case user

    /// Returns the sessions that a revocation ends along with the token; nil if there are none.
    ///
    /// Sessions of one sign-in have the same `sid`. If the provider sends no `sid`, all sessions of the user count.
    func taken(from origin: SignInOrigin) -> SessionSelector? {
        switch self {
        case .token: nil
        case .signIn: origin.sid.map(SessionSelector.sid) ?? .subject(origin.subject)
        case .user: .subject(origin.subject)
        }
    }

    /// Returns whether revoking a token of one sign-in also ends the tokens of another.
    func takes(_ other: SignInOrigin, from origin: SignInOrigin) -> Bool {
        switch taken(from: origin) {
        case .sid(let sid): other.sid == sid
        case .subject(let subject): other.subject == subject
        default: false
        }
    }
}
