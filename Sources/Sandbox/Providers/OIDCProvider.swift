/// `/oidc`: a complete OpenID provider.
struct OIDCProvider: AuthorizationServer {
    let name = "oidc"
    let paths = [
        "/.well-known/openid-configuration": "discovery", "/authorize": "authorize", "/token": "token",
        "/userinfo": "userinfo", "/jwks": "jwks", "/revoke": "revoke", "/introspect": "introspect", "/par": "par",
        "/end_session": "end_session",
    ]
}
