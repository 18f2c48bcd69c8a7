/// `identity`: whence the subject and the claims come.
///
/// Pointers are RFC 6901 JSON pointers.
package struct IdentitySettings: Sendable {
    /// The setting `source`.
    package enum Source: String, Sendable { case idToken = "id_token", userinfo, api }

    /// `source`; nil is `id_token` for kind `oidc` and `api` for kind `oauth2`.
    package var source: Source?
    /// `url`: the API call that says who the token is for; nil is the userinfo endpoint.
    package var url: EndpointURL?
    /// `method`: GET, or POST where a provider wants that (Dropbox).
    package var method: String
    /// `subject`: pointer to the immutable id (a string or a number); nil is `/sub`, and for Zephr the e-mail address.
    package var subject: String?
    /// The other members of `identity` (`name: /profile/name`): claim name to pointer, in order; nil for the standard
    /// OpenID claims.
    package var claims: [(name: String, pointer: String)]?
    /// `emails_url`: a second call whose answer lists `{email, primary, verified}` (GitHub).
    package var emailsURL: EndpointURL?

    package init(
        source: Source? = nil, url: EndpointURL? = nil, method: String = "GET", subject: String? = nil,
        claims: [(name: String, pointer: String)]? = nil, emailsURL: EndpointURL? = nil
    ) {
        self.source = source
        self.url = url
        self.method = method
        self.subject = subject
        self.claims = claims
        self.emailsURL = emailsURL
    }

    /// The claims that are kept of an OpenID identity when the configuration names none.
    package static let standardClaims: [(name: String, pointer: String)] = [
        "name", "given_name", "family_name", "preferred_username", "email", "email_verified", "picture", "locale",
    ].map { ($0, "/" + $0) }
}
