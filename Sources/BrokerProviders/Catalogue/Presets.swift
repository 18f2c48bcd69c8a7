package import Broker

/// The table of presets.
///
/// Each stands on the provider's own pages (docs/providers).
package enum Presets {
    /// Returns the preset of a name, or nil.
    package static func named(_ name: String) -> Preset? { all.first { $0.name == name } }

    /// All presets.
    package static let all: [Preset] = [
        google, apple, microsoft, github, slack, facebook, linkedin, cloudentity, salesforce, cognito, tiktok, amazon,
        ebay,
        asana, fitbit, hubspot,
    ]

    // It ignores `acr_values` and `max_age`, and sends no `auth_time`. A refresh token comes only with offline access, and only
    // while consent is asked for. Revoking withdraws the user's
    // consent, with all that was granted on it (developers.google.com/identity/protocols/oauth2/web-server).
    private static let google = Preset(
        name: "google", displayName: "Google", service: .oidc, issuer: "https://accounts.google.com",
        wire: WireSettings(
            authorizationParameters: [("access_type", "offline"), ("prompt", "consent")], refresh: .keep,
            revocation: RevocationSettings(reaches: .user)),
        nonce: true, scope: ["openid", "email", "profile"], stepUp: .nothing, nativeRedirect: .empty)

    // The name comes once, in the form post; identity is in the id_token alone. Revoking is its call for deleting an
    // account: the user's authorization goes with it (Technical Note TN3194).
    private static let apple = Preset(
        name: "apple", displayName: "Apple", service: .oidc, issuer: "https://appleid.apple.com",
        endpoints: EndpointSettings(revocation: "https://appleid.apple.com/auth/revoke"),
        wire: WireSettings(
            responseMode: .formPost, refresh: .keep, revocation: RevocationSettings(reaches: .user),
            identity: IdentitySettings(source: .idToken),
            idToken: IDTokenSettings(algorithms: [.rs256, .es256])),
        nonce: true, scope: ["openid", "name", "email"], callbackParameters: ["user"], stepUp: .nothing)

    // `common` lets every tenant in: its issuer is a template. There is no revocation per token. A certificate's assertion is
    // for the tenant's token endpoint, signed with PS256, and names the certificate.
    private static let microsoft = Preset(
        name: "microsoft", displayName: "Microsoft", service: .oidc,
        issuer: "https://login.microsoftonline.com/common/v2.0",
        wire: microsoftWire, nonce: true, assertionAlgorithm: .ps256,
        scope: ["openid", "email", "profile", "offline_access"], stepUp: .nothing)

    private static var microsoftWire: WireSettings {
        var wire = WireSettings(
            revocation: RevocationSettings(style: .none),
            idToken: IDTokenSettings(
                algorithms: [.rs256], issuerTemplate: "https://login.microsoftonline.com/{tenantid}/v2.0"))
        // An optional claim, which the app's registration has to ask for.
        wire.logoutHintClaim = "login_hint"
        wire.assertion = AssertionSettings(audience: .tokenEndpoint, type: "JWT", keyHeader: .thumbprint)
        return wire
    }

    // Errors come with status 200, answers as forms unless asked otherwise, ids as numbers, the e-mail by a second
    // call.
    private static let github = Preset(
        name: "github", displayName: "GitHub", service: .oauth2, callbackIssuer: "https://github.com/login/oauth",
        endpoints: EndpointSettings(
            authorization: EndpointURL("https://github.com/login/oauth/authorize"),
            token: EndpointURL("https://github.com/login/oauth/access_token"),
            userinfo: EndpointURL("https://api.github.com/user"),
            revocation: "https://api.github.com/applications/{client_id}/token"),
        wire: WireSettings(
            tokenResponse: TokenResponseSettings(
                refreshExpiresField: "refresh_token_expires_in", invalidGrantCodes: ["bad_refresh_token"],
                scopeSeparator: .comma),
            revocation: RevocationSettings(style: .basicDelete, reaches: .token),
            identity: IdentitySettings(
                source: .api, url: EndpointURL("https://api.github.com/user"), subject: "/id",
                claims: [
                    ("login", "/login"), ("name", "/name"), ("email", "/email"), ("picture", "/avatar_url"),
                ], emailsURL: EndpointURL("https://api.github.com/user/emails"))),
        scope: ["read:user", "user:email"])

    // The user's token stands under `authed_user`, its type is `user`, and its scope is asked for as `user_scope`.
    private static let slack = Preset(
        name: "slack", displayName: "Slack", service: .oauth2,
        endpoints: EndpointSettings(
            authorization: EndpointURL("https://slack.com/oauth/v2/authorize"),
            token: EndpointURL("https://slack.com/api/oauth.v2.access"),
            userinfo: EndpointURL("https://slack.com/api/users.identity"),
            revocation: "https://slack.com/api/auth.revoke"),
        wire: WireSettings(
            scopeSeparator: ",", scopeParameter: "user_scope",
            tokenResponse: TokenResponseSettings(
                path: "/authed_user", tokenTypes: ["user"],
                invalidGrantCodes: ["invalid_refresh_token", "token_revoked", "token_expired"]),
            revocation: RevocationSettings(style: .bearerPost, reaches: .token),
            identity: IdentitySettings(
                source: .api, url: EndpointURL("https://slack.com/api/users.identity"), subject: "/user/id",
                claims: [("name", "/user/name"), ("email", "/user/email"), ("team", "/team/id")])),
        pkce: .unsupported, scope: ["identity.basic", "identity.email"])

    // No refresh token exists; the access token lives long and cannot be revoked by RFC 7009. Limited Login's id_tokens have
    // the issuer of its web pages and keys of their own; their `sub` is the id that the Graph API gives.
    private static let facebook = Preset(
        name: "facebook", displayName: "Facebook", service: .oauth2,
        endpoints: EndpointSettings(
            authorization: EndpointURL("https://www.facebook.com/v24.0/dialog/oauth"),
            token: EndpointURL("https://graph.facebook.com/v24.0/oauth/access_token"),
            jwks: EndpointURL("https://limited.facebook.com/.well-known/oauth/openid/jwks/")),
        wire: WireSettings(
            scopeSeparator: ",", refresh: .none, revocation: RevocationSettings(style: .none),
            identity: IdentitySettings(
                source: .api, url: EndpointURL("https://graph.facebook.com/v24.0/me?fields=id,name,email"),
                subject: "/id",
                claims: [("name", "/name"), ("email", "/email")]),
            idToken: IDTokenSettings(algorithms: [.rs256], issuer: "https://www.facebook.com")),
        secretInBody: true, scope: ["public_profile", "email"])

    // PKCE disturbs it, and it revokes nothing by RFC 7009.
    private static let linkedin = Preset(
        name: "linkedin", displayName: "LinkedIn", service: .oidc, issuer: "https://www.linkedin.com/oauth",
        wire: WireSettings(revocation: RevocationSettings(style: .none)),
        secretInBody: true, pkce: .unsupported, scope: ["openid", "profile", "email"], stepUp: .nothing)

    // A repeated call with the same key gets the first answer again; a public client may have to revoke by its token.
    private static let cloudentity = Preset(
        name: "cloudentity", displayName: "Cloudentity", service: .oidc,
        wire: WireSettings(
            tokenRequest: TokenRequestSettings(idempotencyKey: true),
            tokenResponse: TokenResponseSettings(defaultLifetime: .seconds(3600)),
            revocation: RevocationSettings(hint: false, bearerFallback: true)),
        nonce: true, scope: ["openid", "email", "profile", "offline_access"])
}

/// A well-known provider as data over `oidc` or `oauth2`: what a configuration entry starts from.
package struct Preset: Sendable {
    /// The word for it in a configuration's `kind` (or `preset`).
    package let name: String
    package let displayName: String
    /// `oidc` or `oauth2`.
    package let service: ProviderSettings.Service
    /// The issuer, where the provider has one for all; nil where the configuration has to name it.
    package var issuer: String?
    /// The `iss` of callbacks, where the vendor publishes that without being an OpenID provider; it falls with the
    /// preset's authorization endpoint.
    package var callbackIssuer: String?
    package var endpoints = EndpointSettings()
    package var wire = WireSettings()
    /// Whether clients send and demand a nonce.
    package var nonce = false
    /// Whether a client's secret goes into the body instead of HTTP Basic.
    package var secretInBody = false
    /// The algorithm of a `private_key` where the file does not say.
    package var assertionAlgorithm = SignatureAlgorithm.es256
    package var pkce = ClientProfile.PKCE.required
    /// The scope of a client that names none.
    package var scope: [String] = []
    package var callbackParameters: [String] = []
    /// Its ability to step up; nil where it goes by the kind.
    package var stepUp: StepUpCapability?
    /// The way in which a native SDK's code is redeemed.
    package var nativeRedirect = CodeGrant.RedirectParameter.omitted
}
