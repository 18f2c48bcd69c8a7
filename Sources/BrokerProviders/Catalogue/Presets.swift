import Broker

/// The table of presets.
///
/// Each preset follows the provider's own documentation (docs/providers).
package enum Presets {
    /// Returns the preset of the given name, or nil.
    package static func named(_ name: String) -> Preset? { all.first { $0.name == name } }

    /// All presets.
    package static let all: [Preset] = [
        google, apple, microsoft, github, slack, facebook, linkedin, cloudentity, salesforce, cognito, tiktok, amazon,
        ebay,
        asana, fitbit, hubspot,
    ]

    // Google ignores `acr_values` and `max_age`, and omits `auth_time`. Google issues a refresh token only if the request asks
    // for offline access and for consent. A revocation withdraws the user's consent and ends everything that was granted with
    // the consent (developers.google.com/identity/protocols/oauth2/web-server).
    private static let google = Preset(
        name: "google", displayName: "Google", service: .oidc, issuer: "https://accounts.google.com",
        wire: WireSettings(
            authorizationParameters: [("access_type", "offline"), ("prompt", "consent")], refresh: .keep,
            revocation: RevocationSettings(reaches: .user)),
        nonce: true, scope: ["openid", "email", "profile"], stepUp: .nothing, nativeRedirect: .empty)

    // Apple sends the user's name only at the first sign-in, in the form post. The identity is only in the id_token. Apple's
    // revocation is its call for deleting an account, so it also ends the user's authorization (Technical Note TN3194).
    private static let apple = Preset(
        name: "apple", displayName: "Apple", service: .oidc, issuer: "https://appleid.apple.com",
        endpoints: EndpointSettings(revocation: "https://appleid.apple.com/auth/revoke"),
        wire: WireSettings(
            responseMode: .formPost, refresh: .keep, revocation: RevocationSettings(reaches: .user),
            identity: IdentitySettings(source: .idToken),
            idToken: IDTokenSettings(algorithms: [.rs256, .es256])),
        nonce: true, scope: ["openid", "name", "email"], callbackParameters: ["user"], stepUp: .nothing)

    // The issuer with `common` accepts users of every tenant, so the `iss` of tokens follows a template. Microsoft cannot
    // revoke single tokens. A client assertion has the tenant's token endpoint as its audience, is signed with PS256, and
    // names the client's certificate in its header.
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
        // `login_hint` is an optional claim of id_tokens, which the app's registration at Microsoft has to request.
        wire.logoutHintClaim = "login_hint"
        wire.assertion = AssertionSettings(audience: .tokenEndpoint, type: "JWT", keyHeader: .thumbprint)
        return wire
    }

    // Errors have status 200, token answers are forms unless JSON is requested, and user ids are numbers. A second call
    // (`emailsURL`) returns the email addresses.
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

    // The user's token is in the answer's `authed_user`, its type is `user`, and its scope is requested as `user_scope`.
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

    // Facebook issues long-lived access tokens instead of refresh tokens, and has no RFC 7009 revocation. The id_tokens of
    // Limited Login have Facebook's web address as issuer, and are signed with keys of their own. Their `sub` is the user's
    // id in the Graph API.
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

    // PKCE makes LinkedIn's sign-ins fail. LinkedIn has no RFC 7009 revocation.
    private static let linkedin = Preset(
        name: "linkedin", displayName: "LinkedIn", service: .oidc, issuer: "https://www.linkedin.com/oauth",
        wire: WireSettings(revocation: RevocationSettings(style: .none)),
        secretInBody: true, pkce: .unsupported, scope: ["openid", "profile", "email"], stepUp: .nothing)

    // A repeated call with the same idempotency key gets the first answer again. For a public client, a revocation may need
    // the access token as Bearer.
    private static let cloudentity = Preset(
        name: "cloudentity", displayName: "Cloudentity", service: .oidc,
        wire: WireSettings(
            tokenRequest: TokenRequestSettings(idempotencyKey: true),
            tokenResponse: TokenResponseSettings(defaultLifetime: .seconds(3600)),
            revocation: RevocationSettings(hint: false, bearerFallback: true)),
        nonce: true, scope: ["openid", "email", "profile", "offline_access"])
}
