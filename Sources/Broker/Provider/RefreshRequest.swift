/// One refresh to make.
package struct RefreshRequest: Sendable {
    package var client: ClientName
    package var refreshToken: Secret
    /// The access token beside it, for providers that want it.
    package var accessToken: Secret
    /// Derived from handle and token version: the same for every retry of this refresh, so that a provider that replays
    /// (Cloudentity) answers a lost call again.
    package var idempotencyKey: String
    /// Whether this is the one confirming retry after a lost answer; providers with a recovery call (Clover) use it.
    package var recovering: Bool

    package init(
        client: ClientName, refreshToken: Secret, accessToken: Secret, idempotencyKey: String, recovering: Bool = false
    ) {
        self.client = client
        self.refreshToken = refreshToken
        self.accessToken = accessToken
        self.idempotencyKey = idempotencyKey
        self.recovering = recovering
    }
}

/// Says whose a refreshed id_token is.
package enum RefreshedSubject: Sendable, Equatable {
    /// The answer had no id_token.
    case absent
    /// It had one that verified, for this subject.
    case subject(String)
    /// It had one that did not verify, and why; its claims are dropped (SEC-59).
    case unverifiable(String)
    /// It had one whose signature verified and that is not this session's, and why (OpenID Connect Core 12.2).
    case foreign(String)
}

/// What a verified logout token names; at least one of the two is there.
package struct LogoutNotice: Sendable, Equatable {
    package let subject: String?
    package let sid: String?
    /// The clients that its `aud` names.
    package let clients: [ClientName]
    /// The token's id, for the replay memory (SEC-67).
    package let tokenID: String
    /// Until when the id has to be remembered.
    package let rememberUntil: WallTime

    package init(
        subject: String?, sid: String?, clients: [ClientName], tokenID: String, rememberUntil: WallTime
    ) {
        self.subject = subject
        self.sid = sid
        self.clients = clients
        self.tokenID = tokenID
        self.rememberUntil = rememberUntil
    }
}
