/// An event of the session.
public enum SessionEvent: Sendable, Hashable {
    /// The session as it is: the first event, and the first after each reconnect.
    case session(Session)
    case tokensRefreshed
    /// The last event; the credentials are forgotten. The reason is the broker's, or `key_lost`.
    case ended(reason: String?)
}
