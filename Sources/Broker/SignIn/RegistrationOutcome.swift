/// The result of the provider call that completes a registration.
package enum RegistrationOutcome: Sendable {
    /// The new Zephr session, and the time when its cookie ends.
    case registered(session: Secret, expiresAt: WallTime?)
    case badAttributes
    case userExists
    case emailDomainDenied
    case stateInvalid
    case rateLimited(retryAfter: Duration?)
}
