/// A configured provider as the domain knows it.
///
/// Its talk on the wire is `BrokerProviders`' matter.
package struct ProviderProfile: Sendable {
    package let name: ProviderName
    package let kind: ProviderKind
    /// The text for an app's button.
    package let displayName: String
    /// The subject's namespace: the issuer where there is one, else the provider's name (SEC-33).
    package let issuer: String
    /// The rule for `iss` in this provider's callbacks: a text or a template; nil where the provider publishes none.
    ///
    /// It never enters the subject's namespace.
    package let callbackIssuer: String?
    /// The sessions that a session may list and end.
    package enum Ownership: String, Sendable {
        /// All of its subject's.
        case subject
        /// Itself alone: the subject is a shop, not a person.
        case device
    }

    /// `session: {own}`.
    package let own: Ownership
    /// The clients, in the configuration's order; at least one.
    package let clients: [ClientProfile]
    /// `step_up`: what it can do about how, and how lately, the user signed in.
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

/// The sort of service that a provider is: the closed list that the catalogue switches over.
package enum ProviderKind: String, Sendable, CaseIterable { case oidc, oauth2, clever, clover, zephr }

/// One registration at a provider, as the domain sees it.
package struct ClientProfile: Sendable {
    /// The starter of this client's logins: the broker, the app, or either.
    package enum LoginMode: String, Sendable { case broker, app, both }
    /// The app's way of carrying its session token.
    package enum Transport: String, Sendable { case cookie, bearer }
    /// Whether the provider takes PKCE from this client.
    package enum PKCE: String, Sendable { case required, unsupported }

    package var name: ClientName
    package var login: LoginMode
    package var transport: Transport
    package var pkce: PKCE
    /// The registered redirect URIs; the first is the default.
    package var redirectURIs: [RedirectURI]
    /// The scope asked for when a login names none, and the most it may name.
    package var scope: [String]
    /// Whether an answer without a scope stands for the one that was asked for (`token_response.scope.when_absent`).
    package var assumesScope: Bool
    /// Whether an OpenID nonce is sent and demanded.
    package var nonce: Bool
    /// Whether native SDK codes are taken (Google's serverAuthCode, Apple's authorizationCode).
    package var nativeCode: Bool
    /// The redirect URI's form in a native code's token request: Google wants it empty, Apple wants none.
    package var nativeRedirect: CodeGrant.RedirectParameter
    /// Whether tokens the app already holds may be imported once (Clover's PartialOAuth).
    package var importTokens: Bool
    /// Whether `iss` has to be in every callback, errors too, and the issuer byte for byte: under a profile that says so,
    /// whatever the provider's metadata promise (RFC 9207).
    package var demandsIssuer = false
    /// The setting `sender_constrained`.
    package var senderConstraint = SenderConstraint.off
    /// Whether the app may have the provider's access token (`hand_out_access_token`).
    package var handsOutAccessToken = false
    /// The URL that the hosted callback sends the browser to (flow C), or nil when this client does not use it.
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
    /// The skew of clocks that the age of a sign-in is judged with (`id_token: {leeway}`).
    package var signInLeeway = Duration.seconds(60)
    /// The demand that the configuration's own parameters make of every first sign-in (`authorization_parameters`).
    package var configuredSignIn = StepUpDemand()
    /// The rules for sessions that belong to a key of the device.
    package var binding = BindingPolicy()
    /// The kinds of child that its sessions may have.
    package var children: [ChildKind: ChildPolicy] = [:]
    /// The reach of a revocation of this client's tokens: what else ends at the provider (`revocation: {reaches}`).
    package var revocationReach: RevocationReach

    /// Returns the registered redirect URI that a text is, in the configured spelling; a loopback address has the text's port.
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

/// The setting `sender_constrained`: what a provider binds its tokens to.
///
/// It is asked for when tokens are granted; what is bound stays bound when the setting goes.
package enum SenderConstraint: String, Sendable, CaseIterable {
    /// Nothing: whoever has a token uses it.
    case off
    /// A key of ours for each sign-in, proved with each use (RFC 9449).
    case dpop
    /// The client's certificate, shown with each use (RFC 8705).
    case mtls
}

/// The configured providers by name.
package struct ProviderDirectory: Sendable {
    /// All of them, in the configuration's order.
    package let all: [any ProviderClient]
    /// The registered redirect URIs with a query part, the longest first.
    package let redirectsWithQuery: [String]
    private let byName: [ProviderName: any ProviderClient]
    private let byRedirect: [String: (provider: ProviderName, client: ClientName)]
    /// The clients' names alone, for each use of a session: a profile that is read has all its references counted.
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

    /// Returns who registered a redirect URI; the configuration lets only one client have each.
    package func owner(ofRedirect target: String) -> (provider: ProviderName, client: ClientName)? {
        // Most texts are spelled as they are compared.
        byRedirect[target] ?? RedirectURI(registered: target).flatMap { byRedirect[$0.registration] }
    }
}

/// The other sessions that end at a provider when a token is revoked there.
package enum RevocationReach: String, Sendable, CaseIterable {
    /// Nothing but its grant.
    case token
    /// Every grant of the same sign-in at the provider.
    case signIn = "sign_in"
    /// Every grant of the user.
    case user

    /// Returns the sessions that a revocation takes along, or nil where there are none.
    ///
    /// The same sign-in is told by its `sid`; where the provider sends none, by the user.
    func taken(from origin: SignInOrigin) -> SessionSelector? {
        switch self {
        case .token: nil
        case .signIn: origin.sid.map(SessionSelector.sid) ?? .subject(origin.subject)
        case .user: .subject(origin.subject)
        }
    }

    /// Returns whether a revocation of one takes along the other.
    func takes(_ other: SignInOrigin, from origin: SignInOrigin) -> Bool {
        switch taken(from: origin) {
        case .sid(let sid): other.sid == sid
        case .subject(let subject): other.subject == subject
        default: false
        }
    }
}
