/// One page of a session list.
package struct SessionPage: Sendable {
    package struct Item: Sendable {
        package internal(set) var session: SessionView
        /// Whether this is the session that made the request.
        package let current: Bool
        package let endedAt: WallTime?
        package let reason: EndReason?
        /// The constraint that binds the session's tokens (RFC 8705, RFC 9449).
        ///
        /// Nil for unbound tokens, and in a list that was requested without constraints.
        package internal(set) var senderConstraint: SenderConstraint?
    }

    package let items: [Item]
    package let nextCursor: String?
}
