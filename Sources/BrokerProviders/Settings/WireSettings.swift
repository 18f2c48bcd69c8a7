package import Broker

/// The format of a client's requests and of the provider's answers (the table of settings in docs/reference/configuration.md).
package struct WireSettings: Sendable {
    /// `basic_encoding`: whether the client's id and secret are form-encoded before base64 (RFC 6749 section 2.3.1), or used
    /// as they are.
    package enum BasicEncoding: String, Sendable { case form, raw }
    /// The setting `response_mode`.
    package enum ResponseMode: String, Sendable { case query, formPost = "form_post" }
    /// The setting `par` (RFC 9126).
    package enum PushedAuthorization: String, Sendable { case off, optional, required }

    /// The setting `profile`; nil without a profile.
    package var profile: ConformanceProfile?
    /// The setting `basic_encoding`.
    package var basicEncoding: BasicEncoding
    /// `authorization_parameters`: further parameters that each authorization request contains, in this order.
    package var authorizationParameters: [(name: String, value: String)]
    /// `response_mode`; nil omits the parameter.
    package var responseMode: ResponseMode?
    /// The setting `par`.
    package var pushedAuthorization: PushedAuthorization
    /// `scope_separator`: the text between two scopes in a request; the standard requires one space.
    package var scopeSeparator: String
    /// `scope_parameter`: the name of the scope in the authorization request (Slack: `user_scope`).
    package var scopeParameter: String
    /// `required_scope`: the scopes that the token answer of a sign-in must name as granted (SEC-20).
    package var requiredScope: [String]
    /// The setting `token_request`.
    package var tokenRequest: TokenRequestSettings
    /// The setting `token_response`.
    package var tokenResponse: TokenResponseSettings
    /// The setting `refresh: {mode}`.
    package var refresh: RefreshMode
    /// The setting `revocation`.
    package var revocation: RevocationSettings
    /// The name of the client's id at the authorization, token and revocation endpoints (TikTok: `client_key`); only
    /// presets change it.
    package var clientParameter = "client_id"
    /// The id_token claim that is sent as `logout_hint` to the log-out page; only presets set it.
    package var logoutHintClaim: String?
    /// The setting `assertion`.
    package var assertion = AssertionSettings()
    /// The setting `tls`, with the client's certificate and trust roots.
    package var connection = ConnectionSettings()
    /// The setting `sender_constrained`.
    package var senderConstraint = SenderConstraint.off
    /// The setting `dpop`.
    package var dpop = DPoPSettings()
    /// The setting `identity`.
    package var identity: IdentitySettings
    /// The setting `id_token`.
    package var idToken: IDTokenSettings

    package init(
        basicEncoding: BasicEncoding = .form, authorizationParameters: [(name: String, value: String)] = [],
        responseMode: ResponseMode? = nil, pushedAuthorization: PushedAuthorization = .off,
        scopeSeparator: String = " ", scopeParameter: String = "scope", requiredScope: [String] = [],
        tokenRequest: TokenRequestSettings = TokenRequestSettings(),
        tokenResponse: TokenResponseSettings = TokenResponseSettings(), refresh: RefreshMode = .rotate,
        revocation: RevocationSettings = RevocationSettings(), identity: IdentitySettings = IdentitySettings(),
        idToken: IDTokenSettings = IDTokenSettings()
    ) {
        self.basicEncoding = basicEncoding
        self.authorizationParameters = authorizationParameters
        self.responseMode = responseMode
        self.pushedAuthorization = pushedAuthorization
        self.scopeSeparator = scopeSeparator
        self.scopeParameter = scopeParameter
        self.requiredScope = requiredScope
        self.tokenRequest = tokenRequest
        self.tokenResponse = tokenResponse
        self.refresh = refresh
        self.revocation = revocation
        self.identity = identity
        self.idToken = idToken
    }
}

/// `refresh: {mode}`: the effect of a refresh on the refresh token.
package enum RefreshMode: String, Sendable {
    /// `rotate`: an answer may contain a new refresh token; without a new one, the old refresh token remains valid (SEC-57).
    case rotate
    /// `keep`: the provider never changes the refresh token.
    case keep
    /// `single_use`: the old refresh token becomes invalid as soon as the new pair exists.
    case singleUse = "single_use"
    /// `none`: the client never refreshes, and a refresh token in an answer is dropped.
    case none
}
