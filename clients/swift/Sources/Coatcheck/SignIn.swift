/// The outcome of a sign-in.
public enum SignIn: Sendable, Hashable {
    case signedIn(Session)
    /// Show a form made of its fields, then call ``Coatcheck/register(_:attributes:)``.
    case registration(Registration)

    /// The session, where there is one already.
    public var session: Session? { if case .signedIn(let session) = self { session } else { nil } }
}
