/// The user (`subject`) and the session (`sid`) that a verified logout token names.
///
/// At least one of the two is present.
package struct LogoutNotice: Sendable, Equatable {
    package let subject: String?
    package let sid: String?
    /// The clients in the token's `aud`.
    package let clients: [ClientName]
    /// The token's id (`jti`), which the store remembers so that the token is used only once (SEC-67).
    package let tokenID: String
    /// The time until which the token's id must be remembered.
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
