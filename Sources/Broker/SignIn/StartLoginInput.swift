/// The decoded members of `POST /v1/logins`.
package struct StartLoginInput: Sendable {
    /// The provider; may be nil if a session is stepped up, because the session's provider is used.
    package var provider: ProviderName?
    /// The client; nil picks the provider's only client.
    package var client: ClientName?
    package var redirectURI: String?
    package var scope: [String]?
    package var codeChallenge: String?
    package var codeChallengeMethod: String?
    package var socialProvider: String?
    package var parameters: [(name: String, value: String)]
    /// The login token of the request (cookie or body).
    ///
    /// If the token belongs to a pending login, the new login gets the same starter.
    package var loginToken: Secret?
    package var charge: Charge
    /// The proof of the key that the login is to be bound to.
    package var evidence = PresentedEvidence.none
    /// The demand on the sign-in.
    package var demand: StepUpDemand?
    /// The live session to step up; if it belongs to a key, its request showed a proof.
    package var steppingUp: LiveSession?

    package init(
        provider: ProviderName?, client: ClientName? = nil, redirectURI: String? = nil, scope: [String]? = nil,
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
