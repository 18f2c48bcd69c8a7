/// A partial registration as the app sees it, in the 202 of `POST /v1/sessions`.
package struct RegistrationView: Sendable {
    package let provider: ProviderName
    package let stateKey: Secret
    package let identifier: String?
    package let expiresAt: WallTime
    package let fields: [RegistrationField]

    package init(
        provider: ProviderName, stateKey: Secret, identifier: String?, expiresAt: WallTime, fields: [RegistrationField]
    ) {
        self.provider = provider
        self.stateKey = stateKey
        self.identifier = identifier
        self.expiresAt = expiresAt
        self.fields = fields
    }
}
