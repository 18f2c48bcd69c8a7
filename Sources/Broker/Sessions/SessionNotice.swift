/// An event for the subscribers of `GET /v1/session/events`.
package enum SessionNotice: Sendable, Equatable {
    case tokensRefreshed
    /// The session now has a presence key.
    case presenceKeyChanged
    case ended(EndReason)
    /// A newer subscriber has displaced this one, because the number of subscribers is limited. This is the last notice.
    case superseded
}
