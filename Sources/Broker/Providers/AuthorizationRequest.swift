/// A login's request to the authorization endpoint of the provider.
package struct AuthorizationRequest: Sendable {
    package var client: ClientName
    package var redirectURI: RedirectURI
    package var state: Secret
    /// The OpenID nonce, if the client uses one.
    package var nonce: Secret?
    /// The S256 challenge, unless the client has `pkce: unsupported`.
    package var codeChallenge: String?
    package var scope: [String]
    /// Extra parameters that the client's allow-list permits.
    ///
    /// The names that the broker itself sets are never among them (SEC-07).
    package var parameters: [(name: String, value: String)]
    /// Parameters that a step-up demands; they override configured parameters of the same name.
    package var demanded: [(name: String, value: String)]
    /// The social provider for a Zephr login.
    package var socialProvider: String?
    /// The maker of proofs for the key that the code and its tokens will be bound to; nil for unbound ones.
    package var proof: ProofMaker?

    package init(
        client: ClientName, redirectURI: RedirectURI, state: Secret, nonce: Secret?, codeChallenge: String?,
        scope: [String], parameters: [(name: String, value: String)] = [],
        demanded: [(name: String, value: String)] = [], socialProvider: String? = nil, proof: ProofMaker? = nil
    ) {
        self.demanded = demanded
        self.client = client
        self.redirectURI = redirectURI
        self.state = state
        self.nonce = nonce
        self.codeChallenge = codeChallenge
        self.scope = scope
        self.parameters = parameters
        self.socialProvider = socialProvider
        self.proof = proof
    }
}
