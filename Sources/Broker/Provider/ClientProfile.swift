/// One registration at a provider, as the domain sees it.
package struct ClientProfile: Sendable {
    /// The starter of this client's logins: the broker, the app, or either.
    package enum LoginMode: String, Sendable { case broker, app, both }
    /// How the app carries its session token.
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
    /// How the redirect URI goes into a native code's token request: Google wants it empty, Apple wants none.
    package var nativeRedirect: CodeGrant.RedirectParameter
    /// Whether tokens the app already holds may be imported once (Clover's PartialOAuth).
    package var importTokens: Bool
    /// Whether the app may have the provider's access token (`hand_out_access_token`).
    package var handsOutAccessToken = false
    /// Where the hosted callback sends the browser (flow C), or nil when this client does not use it.
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
    /// The rules for sessions that belong to a key of the device.
    package var binding = BindingPolicy()
    /// What else ends at the provider when this client's tokens are revoked (`revocation: {reaches}`).
    package var revocationReach: RevocationReach

    /// Returns the registered redirect URI that a text is: the same bytes, or a loopback address with another port.
    package func redirectURI(_ text: String) -> RedirectURI? {
        guard let uri = RedirectURI(registered: text),
            redirectURIs.contains(where: { $0.registration.hasBytes(of: uri.registration) })
        else { return nil }
        return uri
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
