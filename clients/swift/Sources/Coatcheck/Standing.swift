/// The state of the sign-in at the start of an app.
public enum Standing: Sendable, Hashable {
    case signedIn(Session)
    /// The user is signed out.
    ///
    /// If a session has just ended, the reason is the reason of its end, for example `key_lost` if the device lost the
    /// session's key.
    case signedOut(reason: String?)
    /// The broker is unreachable at the moment, and the user stays signed in.
    ///
    /// Show the last user.
    case unknown(last: Session?)
}
