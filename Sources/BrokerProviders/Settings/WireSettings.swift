/// The form of a client's requests and of the provider's answers (the settings' table in docs/configuration.md).
package struct WireSettings: Sendable {
    /// `basic_encoding`: whether id and secret are form-encoded before base64 (RFC 6749 section 2.3.1) or sent raw.
    package enum BasicEncoding: String, Sendable { case form, raw }
    /// The setting `response_mode`.
    package enum ResponseMode: String, Sendable { case query, formPost = "form_post" }
    /// The setting `par` (RFC 9126).
    package enum PushedAuthorization: String, Sendable { case off, optional, required }

    /// The setting `basic_encoding`.
    package var basicEncoding: BasicEncoding
    /// `authorization_parameters`: sent always, in this order.
    package var authorizationParameters: [(name: String, value: String)]
    /// `response_mode`; nil sends none.
    package var responseMode: ResponseMode?
    /// The setting `par`.
    package var pushedAuthorization: PushedAuthorization
    /// `scope_separator`: one space, by the standard.
    package var scopeSeparator: String
    /// `scope_parameter`: the name that the scope goes under in the authorization request (Slack: `user_scope`).
    package var scopeParameter: String
    /// `required_scope`: what the token answer has to grant when it names its scope (SEC-20).
    package var requiredScope: [String]
    /// The setting `token_request`.
    package var tokenRequest: TokenRequestSettings
    /// The setting `token_response`.
    package var tokenResponse: TokenResponseSettings
    /// The setting `refresh: {mode}`.
    package var refresh: RefreshMode
    /// The setting `revocation`.
    package var revocation: RevocationSettings
    /// The claim of the id_token that the log-out page takes as `logout_hint`; only a preset names one.
    package var logoutHintClaim: String?
    /// The setting `assertion`.
    package var assertion = AssertionSettings()
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
