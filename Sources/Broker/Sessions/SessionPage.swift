/// One page of a session list.
package struct SessionPage: Sendable {
    package struct Item: Sendable {
        package internal(set) var session: SessionView
        /// Whether this is the session that made the request.
        package let current: Bool
        package let endedAt: WallTime?
        package let reason: EndReason?
        /// The way in which the session's tokens are bound (RFC 8705, RFC 9449); nil if they are unbound, or if the list was
        /// requested without it.
        package internal(set) var senderConstraint: SenderConstraint?
    }

    package let items: [Item]
    package let nextCursor: String?
}
