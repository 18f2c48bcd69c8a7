import Foundation

/// The user who is signed in, as the broker tells it; never a token.
public struct Session: Codable, Sendable, Hashable {
    /// The facts that are known of the provider's tokens.
    public struct Tokens: Codable, Sendable, Hashable {
        /// The end of the access token, where that is known.
        public let expiresAt: Date?
        /// Whether the broker can renew it.
        public let refreshable: Bool

        enum CodingKeys: String, CodingKey { case expiresAt = "expires_at", refreshable }
    }

    /// The key that a bound session belongs to.
    public struct Binding: Codable, Sendable, Hashable {
        /// The key's thumbprint (RFC 7638).
        public let jkt: String
        /// The evidence that its requests may show: `pass` (or a proof), or `proof`.
        public let evidence: String
    }

    /// The key that tells that the user is there.
    public struct Presence: Codable, Sendable, Hashable {
        /// The key's thumbprint (RFC 7638).
        public let jkt: String
    }

    /// The session's public name: not a secret, opens nothing.
    public let handle: String
    /// The number of this state: the client never goes back to a lower one.
    ///
    /// Nil from an older broker.
    public let version: Int?
    /// The provider's name at the broker.
    public let provider: String
    /// The client's name at the broker.
    public let client: String
    /// With the provider, the account's key.
    public let subject: String
    /// The members that the provider confirmed; `unverified` holds what came only in a callback parameter.
    public let identity: [String: JSONValue]
    /// The scopes that were granted; empty when unknown.
    public let scope: [String]
    /// The time at which the user signed in.
    public let createdAt: Date
    /// The time at which it was last used.
    public let lastUsedAt: Date
    /// The time at which it ends if nobody uses it.
    public let idleExpiresAt: Date
    /// The time at which it ends whatever happens.
    public let expiresAt: Date
    /// The facts that are known of the provider's tokens.
    public let tokens: Tokens
    /// The key that it belongs to; nil for one that whoever has its secret may use.
    public let binding: Binding?
    /// The class of the last sign-in (`acr`), where the provider said one.
    public let acr: String?
    /// The methods by which the user signed in (`amr`), where the provider said any.
    public let amr: [String]?
    /// The time at which the user signed in at the provider, where it said that.
    public let authenticatedAt: Date?
    /// The key that tells that the user is there; nil where none is registered.
    public let presence: Presence?
    /// Of a child session its kind, the configuration's word.
    public let kind: String?
    /// Of a child session the handle of its parent.
    public let parent: String?
    /// Whether it is this device's own, in a list of sessions.
    public let current: Bool?
    /// The user's name for the device, in a list of sessions.
    public let device: String?

    enum CodingKeys: String, CodingKey {
        case handle, version, provider, client, subject, identity, scope, tokens, binding, acr, amr, presence, kind,
            parent,
            current, device
        case createdAt = "created_at", lastUsedAt = "last_used_at", authenticatedAt = "authenticated_at"
        case idleExpiresAt = "idle_expires_at", expiresAt = "expires_at"
    }

    /// The user's name, where the provider confirmed one.
    public var name: String? { identity["name"]?.text }

    /// Returns the newer of this answer and a state of the session that is known.
    ///
    /// Replicas may answer with what they read some seconds ago, so a lower version never takes the place of a higher one. The
    /// same version is taken as it comes, and so is the answer of an older broker, which has none.
    func newest(_ known: Session?) -> Session {
        guard let known, known.handle == handle, let version, version < known.version ?? 0 else { return self }
        return known
    }
}
