/// A session after its step-up; its token is unchanged.
package struct SteppedUp: Sendable {
    package let session: SessionView
    /// The token that the request presented, for the cookie's `Max-Age`.
    package let token: Secret
    package let transport: ClientProfile.Transport
    /// The latest time at which the session may end, however often it is refreshed.
    package let endsAtLatest: WallTime

    init(_ live: LiveSession, token: Secret, transport: ClientProfile.Transport, view: SessionView) {
        session = view
        self.token = token
        self.transport = transport
        endsAtLatest =
            live.row.refreshable
            ? live.row.createdAt.advanced(by: live.facts.lifetimes.absolute) : live.row.expiresAt
    }
}
