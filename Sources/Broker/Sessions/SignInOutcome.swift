/// The result of a forwarded code or of a finished registration.
package enum SignInOutcome: Sendable {
    case signedIn(SignedIn)
    case registrationRequired(RegistrationView)
    /// The presented session after its step-up.
    case steppedUp(SteppedUp)

    /// Whether an earlier forward of the same values made the session.
    var isRepeat: Bool { if case .signedIn(let signedIn) = self { signedIn.isRepeat } else { false } }
}
