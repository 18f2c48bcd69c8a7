/// A session of the old system, as the old system describes it.
package struct LegacySession: Sendable {
    /// The provider's id of the user; nil if it is unknown to the old system.
    package var subject: String?
    package var refreshToken: Secret?
    /// The old session's id_token, which is only compared with the provider's answer.
    package var idToken: Secret?
    /// The scope that counts if the provider's answer lacks one.
    package var scope: [String]
    /// The beginning of the old session.
    package var createdAt: WallTime?
    /// The end of the old session, which is the latest end of the new one.
    package var expiresAt: WallTime?
    /// The user's name for the device.
    package var device: String?

    package init(
        subject: String? = nil, refreshToken: Secret? = nil, idToken: Secret? = nil, scope: [String] = [],
        createdAt: WallTime? = nil, expiresAt: WallTime? = nil, device: String? = nil
    ) {
        self.subject = subject
        self.refreshToken = refreshToken
        self.idToken = idToken
        self.scope = scope
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.device = device
    }
}
