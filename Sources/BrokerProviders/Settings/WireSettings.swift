package import Broker

/// The form of a client's requests and of the provider's answers (the table of settings in docs/reference/configuration.md).
package struct WireSettings: Sendable {
    /// `basic_encoding`: whether id and secret are form-encoded before base64 (RFC 6749 section 2.3.1), or sent raw.
    package enum BasicEncoding: String, Sendable { case form, raw }
    /// The setting `response_mode`.
    package enum ResponseMode: String, Sendable { case query, formPost = "form_post" }
    /// The setting `par` (RFC 9126).
    package enum PushedAuthorization: String, Sendable { case off, optional, required }

    /// The setting `profile`; nil if it is absent.
    package var profile: ConformanceProfile?
    /// The setting `basic_encoding`.
    package var basicEncoding: BasicEncoding
    /// `authorization_parameters`: parameters that are always sent, in this order.
    package var authorizationParameters: [(name: String, value: String)]
    /// `response_mode`; nil omits the parameter.
    package var responseMode: ResponseMode?
    /// The setting `par`.
    package var pushedAuthorization: PushedAuthorization
    /// `scope_separator`: one space in the standard.
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

/// `dpop`: the form of proofs for a provider that binds its tokens to the broker's key (RFC 9449).
package struct DPoPSettings: Sendable, Equatable {
    /// The setting `par`: an addition to a pushed request, besides `dpop_jkt`.
    package enum PushedProof: String, Sendable, CaseIterable {
        /// A DPoP proof, which brings the first nonce.
        case proof
        /// No addition besides `dpop_jkt`.
        case thumbprint
    }

    /// The setting `nonce_before_spending`.
    package enum NonceBeforeSpending: String, Sendable, CaseIterable {
        /// The server checks the proof before it spends the refresh token.
        ///
        /// If the server refuses the nonce, the refresh token is not spent.
        case yes = "true"
        /// The server spends the refresh token before it checks the proof.
        case no = "false"
        /// The order is unknown, which is treated like `false`.
        case unknown
    }

    package var par = PushedProof.proof
    package var nonceBeforeSpending = NonceBeforeSpending.unknown
    /// `nonce_age`: the greatest age of a nonce for a refresh.
    ///
    /// If no nonce is younger, a new one is requested first if possible.
    package var nonceAge = Duration.seconds(240)

    package init() {}
}

/// `token_request`: the differences of token and refresh calls from RFC 6749.
package struct TokenRequestSettings: Sendable {
    /// The setting `encoding`.
    package enum Encoding: String, Sendable { case form, json }

    /// The setting `encoding`.
    package var encoding: Encoding
    /// `omit`: standard parameters that are left out.
    package var omit: Set<String>
    /// `rename`: a map from standard names to the provider's names.
    package var rename: [String: String]
    /// `parameters`: further parameters that are always sent, in this order.
    package var parameters: [(name: String, value: String)]
    /// `headers`: further header fields on token, identity and revocation calls (`User-Agent`, `Notion-Version`).
    package var headers: [(name: String, value: String)]
    /// `idempotency_key`: whether `X-Idempotency-Key` is sent.
    ///
    /// Cloudentity uses it to recognise a repeated call.
    package var idempotencyKey: Bool

    package init(
        encoding: Encoding = .form, omit: Set<String> = [], rename: [String: String] = [:],
        parameters: [(name: String, value: String)] = [], headers: [(name: String, value: String)] = [],
        idempotencyKey: Bool = false
    ) {
        self.encoding = encoding
        self.omit = omit
        self.rename = rename
        self.parameters = parameters
        self.headers = headers
        self.idempotencyKey = idempotencyKey
    }
}

/// `revocation`: the way to end a grant, and its session, at the provider.
package struct RevocationSettings: Sendable, Equatable {
    /// The setting `style`.
    package enum Style: String, Sendable {
        /// RFC 7009: a form with `token` and `token_type_hint`.
        case rfc7009
        /// GitHub: `DELETE` with Basic and the access token as JSON.
        case basicDelete = "basic_delete"
        /// Slack: `POST` with the access token as Bearer.
        case bearerPost = "bearer_post"
        /// Tokens are not revoked.
        case none
    }

    /// The setting `style`.
    package var style: Style
    /// `hint`: whether `token_type_hint` is sent (Cloudentity does not list it).
    package var hint: Bool
    /// `bearer_fallback`: whether a refused call is repeated with the access token as Bearer (Cloudentity).
    package var bearerFallback: Bool
    /// `end_session`: whether a log-out also ends the provider's own session, if the provider has an endpoint for it.
    package var endSession: Bool
    /// `reaches`: the tokens and sessions that the provider ends along with a revoked token.
    package var reaches: RevocationReach

    package init(
        style: Style = .rfc7009, hint: Bool = true, bearerFallback: Bool = false, endSession: Bool = true,
        reaches: RevocationReach = .signIn
    ) {
        self.style = style
        self.hint = hint
        self.bearerFallback = bearerFallback
        self.endSession = endSession
        self.reaches = reaches
    }
}

/// `refresh: {mode}`: the effect of a refresh on the refresh token.
package enum RefreshMode: String, Sendable {
    /// `rotate`: an answer may contain a new refresh token; otherwise the old one remains valid (SEC-57).
    case rotate
    /// `keep`: the provider never changes the refresh token.
    case keep
    /// `single_use`: the old refresh token becomes invalid as soon as the new pair exists.
    case singleUse = "single_use"
    /// `none`: the client never refreshes, and a refresh token in an answer is dropped.
    case none
}

/// `id_token`: the rules for id_tokens; a token's own header never decides which algorithm is accepted (SEC-25).
package struct IDTokenSettings: Sendable {
    /// The setting `algorithms`.
    package var algorithms: [SignatureAlgorithm]
    /// `issuer`: the `iss` of the id_tokens from the provider's SDKs, if it differs from the sign-in's issuer.
    ///
    /// For kind `oauth2`, this setting also enables such tokens.
    package var issuer: String?
    /// `leeway`: clock skew, at most 120 s (SEC-29).
    package var leeway: Duration
    /// `maximum_age`: the greatest age of `iat` at a login.
    package var maximumAge: Duration
    /// `trusted_audiences`: audiences and authorized parties that are trusted in addition to the client id (SEC-28).
    package var trustedAudiences: [String]
    /// `issuer_template`: the `iss` of a multi-tenant issuer, with `{tenantid}` replaced by the claim `tid` (Microsoft).
    package var issuerTemplate: String?
    /// `tenants`: the values of `tid` that are accepted with `issuer_template`; empty means all.
    package var tenants: [String]

    package init(
        algorithms: [SignatureAlgorithm] = [.rs256, .es256, .ps256, .edDSA], leeway: Duration = .seconds(60),
        maximumAge: Duration = .seconds(3600), trustedAudiences: [String] = [], issuerTemplate: String? = nil,
        tenants: [String] = [], issuer: String? = nil
    ) {
        self.issuer = issuer
        self.algorithms = algorithms
        self.leeway = leeway
        self.maximumAge = maximumAge
        self.trustedAudiences = trustedAudiences
        self.issuerTemplate = issuerTemplate
        self.tenants = tenants
    }
}

/// The limits on the calls to one provider (SEC-120).
package struct CallLimits: Sendable, Equatable {
    /// `timeout`: the time from the call to the last byte of the answer.
    package var total: Duration
    /// `max_in_flight`: the most concurrent calls; a further call is refused before it is sent.
    package var concurrent: Int
    /// `breaker_failures`: the number of consecutive failures that opens the breaker.
    package var failuresToOpen: Int
    /// `breaker_pause`: the first pause of an open breaker.
    ///
    /// The pause doubles up to a minute while the provider fails.
    package var pause: Duration

    package init(
        total: Duration = .seconds(15), concurrent: Int = 256,
        failuresToOpen: Int = 8, pause: Duration = .seconds(5)
    ) {
        self.total = total
        self.concurrent = concurrent
        self.failuresToOpen = failuresToOpen
        self.pause = pause
    }
}
