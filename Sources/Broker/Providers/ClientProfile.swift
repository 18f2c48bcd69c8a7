/// The settings of one client at a provider that the module `Broker` uses.
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
    /// Whether the app may import tokens that it already holds (`import_tokens`).
    package var importTokens: Bool
    /// The time when imports end; nil if imports are always accepted (Clover, Clever).
    package var importsUntil: WallTime?
    /// The number of imports that one address may begin in a minute (`import_tokens.per_minute`); nil for the limit of logins.
    package var importsPerMinute: Int?
    /// The setting `move_in`; nil if the client lacks an old system.
    package var moveIn: MoveInPolicy?
    /// Whether every callback, including errors, has to contain the exact issuer in `iss`.
    ///
    /// A client with a security profile such as FAPI 2.0 requires this, even if the provider's metadata promise less (RFC
    /// 9207).
    package var demandsIssuer = false
    /// The setting `sender_constrained`.
    package var senderConstraint = SenderConstraint.off
    /// Whether the app may have the provider's access token (`hand_out_access_token`).
    package var handsOutAccessToken = false
    /// The URL that the hosted callback sends the browser to (flow C); nil if this client does not use it.
    package var hostedCallbackTo: String?
    /// The names of the parameters that an app may add to the authorization request of its login.
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

    /// Returns the registered redirect URI that a text matches, in the configured spelling; nil if none matches.
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
