/// A login that has begun, as its starter gets to know it.
package struct StartedLogin: Sendable {
    package let loginID: String
    package let authorizationURL: Secret
    /// What the provider's own app opens instead, where it is on the device.
    package let appURL: Secret?
    package let state: Secret
    package let expiresAt: WallTime
    /// Until when the URL can be opened, where that is sooner.
    package let openBy: WallTime?
    /// The starter's secret: a cookie, or a body member for bearer clients.
    package let loginToken: Secret
    package let transport: ClientProfile.Transport

    package init(
        loginID: String, authorizationURL: Secret, appURL: Secret? = nil, state: Secret, expiresAt: WallTime,
        openBy: WallTime? = nil, loginToken: Secret, transport: ClientProfile.Transport
    ) {
        self.loginID = loginID
        self.authorizationURL = authorizationURL
        self.appURL = appURL
        self.state = state
        self.expiresAt = expiresAt
        self.openBy = openBy
        self.loginToken = loginToken
        self.transport = transport
    }
}
