/// What a forwarded code or a finished registration came to.
package enum SignInOutcome: Sendable {
    case signedIn(SignedIn)
    case registrationRequired(RegistrationView)
}

/// A new session with the secret that opens it.
package struct SignedIn: Sendable {
    package let session: SessionView
    package let token: Secret
    package let transport: ClientProfile.Transport

    package init(session: SessionView, token: Secret, transport: ClientProfile.Transport) {
        self.session = session
        self.token = token
        self.transport = transport
    }
}

/// A partial registration as the app sees it (the 202 of DESIGN section 3.1).
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
