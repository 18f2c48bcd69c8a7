/// An event of the session.
public enum SessionEvent: Sendable, Hashable {
    /// The current session. This is the first event, also after each reconnect.
    case session(Session)
    case tokensRefreshed
    /// The last event.
    ///
    /// The credentials are already deleted. The reason comes from the broker, or is `key_lost`.
    case ended(reason: String?)
}
