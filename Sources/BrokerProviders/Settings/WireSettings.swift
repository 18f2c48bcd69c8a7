package import Broker

/// The form of a client's requests and of the provider's answers (the settings' table in docs/reference/configuration.md).
package struct WireSettings: Sendable {
    /// `basic_encoding`: whether id and secret are form-encoded before base64 (RFC 6749 section 2.3.1) or sent raw.
    package enum BasicEncoding: String, Sendable { case form, raw }
    /// The setting `response_mode`.
    package enum ResponseMode: String, Sendable { case query, formPost = "form_post" }
    /// The setting `par` (RFC 9126).
    package enum PushedAuthorization: String, Sendable { case off, optional, required }

    /// The setting `profile`; nil for none.
    package var profile: ConformanceProfile?
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
    /// The name that the client's id goes under at the authorization, token and revocation endpoints (TikTok: `client_key`); only a
    /// preset names one.
    package var clientParameter = "client_id"
    /// The claim of the id_token that the log-out page takes as `logout_hint`; only a preset names one.
    package var logoutHintClaim: String?
    /// The setting `assertion`.
    package var assertion = AssertionSettings()
    /// The setting `tls`: the certificate that is shown, and whom to trust.
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

/// `dpop`: how proofs are shown to a provider that binds its tokens to a key of ours (RFC 9449).
package struct DPoPSettings: Sendable, Equatable {
    /// The setting `par`: what goes with a pushed request beside `dpop_jkt`.
    package enum PushedProof: String, Sendable, CaseIterable {
        /// A proof, which brings the first nonce.
        case proof
        /// Nothing.
        case thumbprint
    }

    /// The setting `nonce_before_spending`.
    package enum NonceBeforeSpending: String, Sendable, CaseIterable {
        /// The server looks at the proof first: refused for a nonce, a refresh token is as good as it was.
        case yes = "true"
        /// It spends the refresh token first.
        case no = "false"
        /// Nobody has said: as `false`.
        case unknown
    }

    package var par = PushedProof.proof
    package var nonceBeforeSpending = NonceBeforeSpending.unknown
    /// `nonce_age`: with none younger than this a refresh is not sent, where one can be had first.
    package var nonceAge = Duration.seconds(240)

    package init() {}
}

/// `token_request`: how token and refresh calls differ from RFC 6749's.
package struct TokenRequestSettings: Sendable {
    /// The setting `encoding`.
    package enum Encoding: String, Sendable { case form, json }

    /// The setting `encoding`.
    package var encoding: Encoding
    /// `omit`: standard parameters that are left out.
    package var omit: Set<String>
    /// `rename`: standard name to the provider's.
    package var rename: [String: String]
    /// `parameters`: further ones, sent always, in this order.
    package var parameters: [(name: String, value: String)]
    /// `headers`: further ones on token, identity and revocation calls (`User-Agent`, `Notion-Version`).
    package var headers: [(name: String, value: String)]
    /// `idempotency_key`: whether `X-Idempotency-Key` is sent, which Cloudentity answers a repeated call by.
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

/// `revocation`: how a grant, and the session it came from, is ended at the provider.
package struct RevocationSettings: Sendable, Equatable {
    /// The setting `style`.
    package enum Style: String, Sendable {
        /// RFC 7009: a form with `token` and `token_type_hint`.
        case rfc7009
        /// GitHub: `DELETE` with Basic and the access token as JSON.
        case basicDelete = "basic_delete"
        /// Slack: `POST` with the access token as Bearer.
        case bearerPost = "bearer_post"
        /// Nothing is called.
        case none
    }

    /// The setting `style`.
    package var style: Style
    /// `hint`: whether `token_type_hint` is sent (Cloudentity does not list it).
    package var hint: Bool
    /// `bearer_fallback`: whether a refused call is made again with the access token as Bearer (Cloudentity).
    package var bearerFallback: Bool
    /// `end_session`: whether a log-out ends the provider's own session too, where the provider has an endpoint for it.
    package var endSession: Bool
    /// `reaches`: what else ends when a token is revoked.
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

/// `refresh: {mode}`: what a refresh does to the refresh token.
package enum RefreshMode: String, Sendable {
    /// `rotate`: an answer may bring a new one; without one the old one stays (SEC-57).
    case rotate
    /// `keep`: the provider never changes it.
    case keep
    /// `single_use`: the old one is dead as soon as the new pair exists.
    case singleUse = "single_use"
    /// `none`: there is no refresh; a refresh token in an answer is dropped.
    case none
}

/// `id_token`: what is accepted; the token's header never chooses (SEC-25).
package struct IDTokenSettings: Sendable {
    /// The setting `algorithms`.
    package var algorithms: [SignatureAlgorithm]
    /// `issuer`: the `iss` of the id_tokens that the provider's SDKs give out, where that is not the issuer of its sign-in;
    /// for kind `oauth2`, which knows no other, it says that there are such tokens.
    package var issuer: String?
    /// `leeway`: clock skew, at most 120 s (SEC-29).
    package var leeway: Duration
    /// `maximum_age`: how old `iat` may be at a login.
    package var maximumAge: Duration
    /// `trusted_audiences`: audiences and authorized parties believed beside our own client id (SEC-28).
    package var trustedAudiences: [String]
    /// `issuer_template`: the `iss` of a multi-tenant issuer, `{tenantid}` filled from the claim `tid` (Microsoft).
    package var issuerTemplate: String?
    /// `tenants`: the `tid`s believed with `issuer_template`; empty for all.
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

/// The bounds of what one provider may cost (SEC-120).
package struct CallLimits: Sendable, Equatable {
    /// `timeout`: from the call to the last byte of the answer.
    package var total: Duration
    /// `max_in_flight`: calls at one time; one more is refused unsent.
    package var concurrent: Int
    /// `breaker_failures`: failures in a row that open the breaker.
    package var failuresToOpen: Int
    /// `breaker_pause`: how long it stays open at first; doubled up to a minute while the provider stays dead.
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
