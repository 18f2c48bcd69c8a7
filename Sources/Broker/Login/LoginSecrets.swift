/// What a login keeps for its callback, sealed in its row.
package struct LoginSecrets: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var redirectURI: String
    /// The broker's own PKCE verifier; nil when the app holds it, or without PKCE.
    package var verifier: Secret?
    /// The app's challenge, when the app holds the verifier (SEC-03).
    package var appChallenge: String?
    package var nonce: Secret?
    package var scope: [String]
    package var issuer: IssuerExpectation
    package var socialProvider: String?
    /// What the authorization request asked of the sign-in.
    package var demands: SignInDemands
    /// Whether a provider-started arrival made it (flow D): a second such arrival does not make a third login.
    package var providerStarted: Bool
    /// The thumbprint of the key that has to finish it; sealed, because it links logins of one device.
    package var thumbprint: Digest?

    package init(
        provider: ProviderName, client: ClientName, redirectURI: String, verifier: Secret?, appChallenge: String?,
        nonce: Secret?, scope: [String], issuer: IssuerExpectation, socialProvider: String?, demands: SignInDemands,
        providerStarted: Bool, thumbprint: Digest? = nil
    ) {
        self.provider = provider
        self.client = client
        self.redirectURI = redirectURI
        self.verifier = verifier
        self.appChallenge = appChallenge
        self.nonce = nonce
        self.scope = scope
        self.issuer = issuer
        self.socialProvider = socialProvider
        self.demands = demands
        self.providerStarted = providerStarted
        self.thumbprint = thumbprint
    }
}
