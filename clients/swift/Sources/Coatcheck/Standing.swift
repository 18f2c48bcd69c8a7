/// The state of the sign-in at the start of an app.
public enum Standing: Sendable, Hashable {
    case signedIn(Session)
    /// The user is signed out.
    ///
    /// The reason is nil if no session was stored. Otherwise, it is the reason why the session has ended, for example
    /// `key_lost` if the device lost the session's key.
    case signedOut(reason: String?)
    /// The broker is unreachable at the moment, and the user stays signed in.
    ///
    /// Show the user of `last`, the last known session.
    case unknown(last: Session?)
}
