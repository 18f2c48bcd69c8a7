/// An event for the listeners of `GET /v1/session/events`.
package enum SessionNotice: Sendable, Equatable {
    case tokensRefreshed
    /// The session now has a presence key.
    case presenceKeyChanged
    case ended(EndReason)
    /// A newer listener needed the place of this listener. This is the listener's last notice.
    case superseded
}
