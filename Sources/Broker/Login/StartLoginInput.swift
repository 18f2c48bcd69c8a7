/// What `POST /v1/logins` asks for, already decoded.
package struct StartLoginInput: Sendable {
    package var provider: ProviderName
    /// Nil picks the provider's only client.
    package var client: ClientName?
    package var redirectURI: String?
    package var scope: [String]?
    package var codeChallenge: String?
    package var codeChallengeMethod: String?
    package var socialProvider: String?
    package var parameters: [(name: String, value: String)]
    /// The login token the request brought (cookie or body), to join a pending login's starter.
    package var loginToken: Secret?
    package var charge: Charge
    /// The proof of the key that the login is to be bound to.
    package var evidence = PresentedEvidence.none

    package init(
        provider: ProviderName, client: ClientName? = nil, redirectURI: String? = nil, scope: [String]? = nil,
        codeChallenge: String? = nil, codeChallengeMethod: String? = nil, socialProvider: String? = nil,
        parameters: [(name: String, value: String)] = [], loginToken: Secret? = nil, charge: Charge = .nobody
    ) {
        self.provider = provider
        self.client = client
        self.redirectURI = redirectURI
        self.scope = scope
        self.codeChallenge = codeChallenge
        self.codeChallengeMethod = codeChallengeMethod
        self.socialProvider = socialProvider
        self.parameters = parameters
        self.loginToken = loginToken
        self.charge = charge
    }
}
