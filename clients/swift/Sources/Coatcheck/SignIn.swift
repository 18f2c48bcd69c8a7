/// The outcome of a sign-in.
public enum SignIn: Sendable, Hashable {
    case signedIn(Session)
    /// A registration is needed.
    ///
    /// Show a form with its fields, then call ``Coatcheck/register(_:attributes:)``.
    case registration(Registration)

    /// The session, if the sign-in already made one.
    public var session: Session? { if case .signedIn(let session) = self { session } else { nil } }
}
