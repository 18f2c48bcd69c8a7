/// `identity`: the sources of the subject and the claims.
///
/// Pointers are RFC 6901 JSON pointers.
package struct IdentitySettings: Sendable {
    /// The setting `source`.
    package enum Source: String, Sendable { case idToken = "id_token", userinfo, api }

    /// `source`; nil means `id_token` for kind `oidc`, and `api` for kind `oauth2`.
    package var source: Source?
    /// `url`: the API call that identifies the token's user; nil is the userinfo endpoint.
    package var url: EndpointURL?
    /// `method`: GET, or POST if a provider requires it (Dropbox).
    package var method: String
    /// `subject`: the pointer to the immutable id (a string or a number); nil is `/sub`, and for Zephr the email address.
    package var subject: String?
    /// `identity`'s other members (`name: /profile/name`), which map claim names to pointers, in order; nil for the
    /// standard OpenID claims.
    package var claims: [(name: String, pointer: String)]?
    /// Further texts that mean "no error" in the member `error` of a 2xx answer, in addition to `none` and `ok`.
    ///
    /// Only presets set them.
    package var noErrors: [String] = []
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

    /// The claims that are kept of an OpenID identity, unless the configuration names other claims.
    package static let standardClaims: [(name: String, pointer: String)] = [
        "name", "given_name", "family_name", "preferred_username", "email", "email_verified", "picture", "locale",
    ].map { ($0, "/" + $0) }
}
