/// The result of a forwarded code or of a finished registration.
package enum SignInOutcome: Sendable {
    case signedIn(SignedIn)
    case registrationRequired(RegistrationView)
    /// The presented session after its step-up.
    case steppedUp(SteppedUp)
}
