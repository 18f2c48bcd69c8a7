/// What a session row seals besides the tokens: whose it is, and how long it lives.
package struct SessionFacts: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var subject: String
    package var identity: [(name: String, value: JSONValue)]
    package var unverified: [(name: String, value: JSONValue)]
    package var scope: [String]
    package var device: String?
    /// The client's lifetimes at login, so that a later change of configuration ends nothing by surprise.
    package var lifetimes: SessionLifetimes
    /// `auth_time`, which a refreshed id_token must repeat (SEC-59).
    package var authenticatedAt: Int64?
    /// The thumbprint of the key that it belongs to (RFC 7638); sealed, because it links sessions of one device.
    package var thumbprint: Digest?

    package init(
        provider: ProviderName, client: ClientName, subject: String, identity: [(name: String, value: JSONValue)],
        unverified: [(name: String, value: JSONValue)], scope: [String], device: String?, lifetimes: SessionLifetimes,
        authenticatedAt: Int64?, thumbprint: Digest? = nil
    ) {
        self.provider = provider
        self.client = client
        self.subject = subject
        self.identity = identity
        self.unverified = unverified
        self.scope = scope
        self.device = device
        self.lifetimes = lifetimes
        self.authenticatedAt = authenticatedAt
        self.thumbprint = thumbprint
    }
}
