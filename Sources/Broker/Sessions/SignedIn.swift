/// A new session with the secret that opens it.
package struct SignedIn: Sendable {
    package let session: SessionView
    package let token: Secret
    package let transport: ClientProfile.Transport
    /// The first pass of a session that belongs to a key.
    package let pass: GrantedPass?
    /// The latest time at which the session may end, however often it is refreshed.
    ///
    /// The cookie lives until this time, because a refresh leaves the cookie as it is.
    package let endsAtLatest: WallTime
    /// Whether an earlier forward made the session.
    var isRepeat = false

    init(
        _ live: LiveSession, token: Secret, transport: ClientProfile.Transport, _ context: BrokerContext
    ) throws(BrokerProblem) {
        pass = GrantedPass(for: live, context)
        session = try ResumeSession(context: context).view(of: live)
        self.token = token
        self.transport = transport
        endsAtLatest =
            live.row.refreshable
            ? live.row.createdAt.advanced(by: live.facts.lifetimes.absolute) : live.row.expiresAt
    }

    /// Creates the result of a new child.
    ///
    /// The child's token is a bearer token, even if its client's transport is a cookie. The child gets a pass once it has
    /// proved its key.
    init(child: LiveSession, token: Secret) {
        pass = nil
        session = child.view
        self.token = token
        transport = .bearer
        endsAtLatest = child.view.expiresAt
    }
}
