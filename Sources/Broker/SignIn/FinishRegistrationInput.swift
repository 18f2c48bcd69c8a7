/// The body of `POST /v1/registrations`, already decoded.
package struct FinishRegistrationInput: Sendable {
    package var provider: ProviderName
    package var client: ClientName?
    package var stateKey: Secret
    /// The slug and value (string, number or boolean) of each attribute, in the request's order; each slug occurs once.
    package var attributes: [(name: String, value: JSONValue)]
    package var loginToken: Secret?
    package var presentedSession: Secret?
    package var charge: Charge
    /// The proof of the key that the session is to belong to.
    package var evidence = PresentedEvidence.none

    package init(
        provider: ProviderName, client: ClientName?, stateKey: Secret, attributes: [(name: String, value: JSONValue)],
        loginToken: Secret?, presentedSession: Secret?, charge: Charge = .nobody
    ) {
        self.provider = provider
        self.client = client
        self.stateKey = stateKey
        self.attributes = attributes
        self.loginToken = loginToken
        self.presentedSession = presentedSession
        self.charge = charge
    }
}
