/// The result of the register call, according to the provider's status map.
package enum RegistrationOutcome: Sendable {
    /// The new Zephr session, and the time when its cookie ends.
    case registered(session: Secret, expiresAt: WallTime?)
    case badAttributes
    case userExists
    case emailDomainDenied
    case stateInvalid
    case rateLimited(retryAfter: Duration?)
}
