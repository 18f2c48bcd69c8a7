import Broker

/// Presets that follow the vendors' documents, and were tested only against the sandbox. Each vendor's page in docs/providers
/// states this.
extension Presets {
    // Access tokens contain a `!`, and token answers omit the lifetime. The email address comes only from userinfo.
    // Revoking a refresh token also ends its access tokens (help.salesforce.com, "Revoke OAuth Tokens").
    static let salesforce = Preset(
        name: "salesforce", displayName: "Salesforce", service: .oidc, issuer: "https://login.salesforce.com",
        wire: WireSettings(
            identity: IdentitySettings(source: .userinfo), idToken: IDTokenSettings(algorithms: [.rs256])),
        nonce: true, scope: ["openid", "email", "profile", "refresh_token"], stepUp: .nothing)

    // In userinfo, `email_verified` is a text. The log-out page takes other parameters than OpenID Connect's, so it is not
    // called (docs.aws.amazon.com/cognito/latest/developerguide, "userinfo-endpoint", "logout-endpoint").
    static let cognito = Preset(
        name: "cognito", displayName: "Amazon Cognito", service: .oidc,
        wire: WireSettings(
            refresh: .keep, revocation: RevocationSettings(endSession: false),
            idToken: IDTokenSettings(algorithms: [.rs256])),
        nonce: true, scope: ["openid", "email", "profile"], stepUp: .nothing)

    // The client id is called `client_key`, scopes are separated by commas, and tokens contain a `!`. The answer with the
    // user's profile includes `error: {"code": "ok"}`. PKCE is only for public apps, and its challenge differs from RFC 7636
    // (developers.tiktok.com/doc/oauth-user-access-token-management, /doc/login-kit-desktop).
    static let tiktok = Preset(
        name: "tiktok", displayName: "TikTok", service: .oauth2,
        endpoints: EndpointSettings(
            authorization: EndpointURL("https://www.tiktok.com/v2/auth/authorize/"),
            token: EndpointURL("https://open.tiktokapis.com/v2/oauth/token/"),
            userinfo: EndpointURL("https://open.tiktokapis.com/v2/user/info/"),
            revocation: "https://open.tiktokapis.com/v2/oauth/revoke/"),
        wire: tiktokWire, secretInBody: true, pkce: .unsupported, scope: ["user.info.basic"])

    private static var tiktokWire: WireSettings {
        var wire = WireSettings(
            scopeSeparator: ",",
            tokenResponse: TokenResponseSettings(refreshExpiresField: "refresh_expires_in", scopeSeparator: .comma),
            revocation: RevocationSettings(hint: false, reaches: .token),
            identity: IdentitySettings(
                source: .api,
                url: EndpointURL("https://open.tiktokapis.com/v2/user/info/?fields=open_id,display_name,avatar_url"),
                subject: "/data/user/open_id",
                claims: [("name", "/data/user/display_name"), ("picture", "/data/user/avatar_url")]))
        wire.clientParameter = "client_key"
        return wire
    }

    // Tokens contain a `|`. Amazon has no endpoint for revocation
    // (developer.amazon.com/docs/login-with-amazon/authorization-code-grant.html, /obtain-customer-profile.html).
    static let amazon = Preset(
        name: "amazon", displayName: "Amazon", service: .oauth2,
        endpoints: EndpointSettings(
            authorization: EndpointURL("https://www.amazon.com/ap/oa"),
            token: EndpointURL("https://api.amazon.com/auth/o2/token"),
            userinfo: EndpointURL("https://api.amazon.com/user/profile")),
        wire: WireSettings(
            revocation: RevocationSettings(style: .none),
            identity: IdentitySettings(
                source: .api, url: EndpointURL("https://api.amazon.com/user/profile"), subject: "/user_id",
                claims: [("name", "/name"), ("email", "/email")])),
        secretInBody: true, scope: ["profile"])

    // `redirect_uri` contains the RuName, which is eBay's name for a redirect URI. Tokens contain `^` and `#`, and their
    // type is `User Access Token`. A refresh does not change the refresh token
    // (developer.ebay.com/api-docs/static/oauth-authorization-code-grant.html, /oauth-redirect-uri.html).
    static let ebay = Preset(
        name: "ebay", displayName: "eBay", service: .oauth2,
        endpoints: EndpointSettings(
            authorization: EndpointURL("https://auth.ebay.com/oauth2/authorize"),
            token: EndpointURL("https://api.ebay.com/identity/v1/oauth2/token"),
            userinfo: EndpointURL("https://apiz.ebay.com/commerce/identity/v1/user/")),
        wire: WireSettings(
            tokenResponse: TokenResponseSettings(
                refreshExpiresField: "refresh_token_expires_in", tokenTypes: ["User Access Token"]),
            refresh: .keep, revocation: RevocationSettings(style: .none),
            identity: IdentitySettings(
                source: .api, url: EndpointURL("https://apiz.ebay.com/commerce/identity/v1/user/"),
                subject: "/userId", claims: [("name", "/username")])),
        pkce: .unsupported, scope: ["https://api.ebay.com/oauth/api_scope/commerce.identity.readonly"])

    // Tokens contain `/` and `:`. A refresh does not change the refresh token, and a revocation call takes the refresh
    // token (developers.asana.com/docs/oauth, /reference/getuser).
    static let asana = Preset(
        name: "asana", displayName: "Asana", service: .oauth2,
        endpoints: EndpointSettings(
            authorization: EndpointURL("https://app.asana.com/-/oauth_authorize"),
            token: EndpointURL("https://app.asana.com/-/oauth_token"),
            userinfo: EndpointURL("https://app.asana.com/api/1.0/users/me"),
            revocation: "https://app.asana.com/-/oauth_revoke"),
        wire: WireSettings(
            refresh: .keep, revocation: RevocationSettings(hint: false, reaches: .token),
            identity: IdentitySettings(
                source: .api, url: EndpointURL("https://app.asana.com/api/1.0/users/me"), subject: "/data/gid",
                claims: [("name", "/data/name"), ("email", "/data/email")])),
        secretInBody: true, scope: ["users:read"])

    // All errors, including the one for a dead refresh token, come in a list. A refresh token works once. A revocation
    // ends all tokens of the user (dev.fitbit.com/build/reference/web-api/troubleshooting-guide/error-messages,
    // /authorization/revoke-token).
    static let fitbit = Preset(
        name: "fitbit", displayName: "Fitbit", service: .oauth2,
        endpoints: EndpointSettings(
            authorization: EndpointURL("https://www.fitbit.com/oauth2/authorize"),
            token: EndpointURL("https://api.fitbit.com/oauth2/token"),
            userinfo: EndpointURL("https://api.fitbit.com/1/user/-/profile.json"),
            revocation: "https://api.fitbit.com/oauth2/revoke"),
        wire: WireSettings(
            tokenResponse: TokenResponseSettings(
                deadGrants: [DeadGrantPlace(pointer: "/errors/*/errorType", values: ["invalid_grant"])]),
            refresh: .singleUse, revocation: RevocationSettings(hint: false, reaches: .user),
            identity: IdentitySettings(
                source: .api, url: EndpointURL("https://api.fitbit.com/1/user/-/profile.json"),
                subject: "/user/encodedId", claims: [("name", "/user/displayName"), ("picture", "/user/avatar")])),
        scope: ["profile"])

    // A sign-in identifies a HubSpot account (a "portal") instead of a person. The only identity call that takes the token in
    // a header returns the portal's id. The answer to a dead refresh token has `error: invalid_grant` and the older member
    // `status`. HubSpot's support documents a second meaning of that `status`, so this preset ignores it
    // (developers.hubspot.com/changelog/new-oauth-v3-api-endpoints-and-standardized-error-responses).
    static let hubspot = Preset(
        name: "hubspot", displayName: "HubSpot", service: .oauth2,
        endpoints: EndpointSettings(
            authorization: EndpointURL("https://app.hubspot.com/oauth/authorize"),
            token: EndpointURL("https://api.hubapi.com/oauth/v3/token"),
            userinfo: EndpointURL("https://api.hubapi.com/account-info/v3/details")),
        wire: WireSettings(
            revocation: RevocationSettings(style: .none),
            identity: IdentitySettings(
                source: .api, url: EndpointURL("https://api.hubapi.com/account-info/v3/details"),
                subject: "/portalId", claims: [("portal", "/portalId"), ("time_zone", "/timeZone")])),
        secretInBody: true, pkce: .unsupported, scope: ["oauth"])
}
