/// The state of things as an app knows it at its start.
public enum Standing: Sendable, Hashable {
    case signedIn(Session)
    /// Nobody is signed in; why the last session ended, if one did just now (`key_lost`: the device lost the session's key).
    case signedOut(reason: String?)
    /// The broker cannot be asked at the moment: nobody is signed out. Show who was there last.
    case unknown(last: Session?)
}
