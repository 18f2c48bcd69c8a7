/// A login that has begun, as its starter sees it.
package struct StartedLogin: Sendable {
    package let loginID: String
    package let authorizationURL: Secret
    /// The URL that the provider's own app opens instead, if that app is on the device.
    package let appURL: Secret?
    package let state: Secret
    package let expiresAt: WallTime
    /// The latest time for opening the URL, if it is earlier than `expiresAt`.
    package let openBy: WallTime?
    /// The starter's secret, as a cookie, or as a body member for bearer clients.
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
