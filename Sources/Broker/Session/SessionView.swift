/// A session as its owner may see it: the session object of the contract.
///
/// It never holds a token (SEC-52).
package struct SessionView: Sendable {
    package var handle: SessionHandle
    package var provider: ProviderName
    package var client: ClientName
    package var subject: String
    package var identity: [(name: String, value: JSONValue)]
    package var unverified: [(name: String, value: JSONValue)]
    package var scope: [String]
    package var createdAt: WallTime
    package var lastUsedAt: WallTime
    package var idleExpiresAt: WallTime
    package var expiresAt: WallTime
    package var tokensExpireAt: WallTime?
    package var refreshable: Bool
    package var device: String?
    package var binding: SessionBinding?

    package init(
        handle: SessionHandle, provider: ProviderName, client: ClientName, subject: String,
        identity: [(name: String, value: JSONValue)], unverified: [(name: String, value: JSONValue)], scope: [String],
        createdAt: WallTime, lastUsedAt: WallTime, idleExpiresAt: WallTime, expiresAt: WallTime,
        tokensExpireAt: WallTime?, refreshable: Bool, device: String?, binding: SessionBinding?
    ) {
        self.handle = handle
        self.provider = provider
        self.client = client
        self.subject = subject
        self.identity = identity
        self.unverified = unverified
        self.scope = scope
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
        self.idleExpiresAt = idleExpiresAt
        self.expiresAt = expiresAt
        self.tokensExpireAt = tokensExpireAt
        self.refreshable = refreshable
        self.device = device
        self.binding = binding
    }
}
