/// What a login asks of the provider's authorization endpoint.
package struct AuthorizationRequest: Sendable {
    package var client: ClientName
    package var redirectURI: RedirectURI
    package var state: Secret
    /// The OpenID nonce, when the client uses one.
    package var nonce: Secret?
    /// The S256 challenge, unless the client says `pkce: unsupported`.
    package var codeChallenge: String?
    package var scope: [String]
    /// Allow-listed extras, none of them a name that the broker sets (SEC-07).
    package var parameters: [(name: String, value: String)]
    /// Zephr's social provider.
    package var socialProvider: String?

    package init(
        client: ClientName, redirectURI: RedirectURI, state: Secret, nonce: Secret?, codeChallenge: String?,
        scope: [String], parameters: [(name: String, value: String)] = [], socialProvider: String? = nil
    ) {
        self.client = client
        self.redirectURI = redirectURI
        self.state = state
        self.nonce = nonce
        self.codeChallenge = codeChallenge
        self.scope = scope
        self.parameters = parameters
        self.socialProvider = socialProvider
    }
}
