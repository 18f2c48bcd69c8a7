import Foundation

/// The session of the signed-in user, as the broker reports it.
///
/// Tokens are never part of the session.
public struct Session: Codable, Sendable, Hashable {
    /// The known facts about the provider's tokens.
    public struct Tokens: Codable, Sendable, Hashable {
        /// The expiry of the access token, if it is known.
        public let expiresAt: Date?
        /// Whether the broker can renew the access token.
        public let refreshable: Bool

        enum CodingKeys: String, CodingKey { case expiresAt = "expires_at", refreshable }
    }

    /// The key of a bound session.
    public struct Binding: Codable, Sendable, Hashable {
        /// The key's thumbprint (RFC 7638).
        public let jkt: String
        /// The evidence that the session's requests may send: `pass` (or a proof), or `proof`.
        public let evidence: String
    }

    /// The presence key, which proves that the user confirmed a call.
    public struct Presence: Codable, Sendable, Hashable {
        /// The key's thumbprint (RFC 7638).
        public let jkt: String
    }

    /// The session's public name, which gives no access.
    public let handle: String
    /// The version of this session object, or nil from an older broker.
    ///
    /// The library never replaces a session object by one with a lower version.
    public let version: Int?
    /// The provider's name at the broker.
    public let provider: String
    /// The client's name at the broker.
    public let client: String
    /// The user's ID at the provider.
    ///
    /// Provider and subject together identify the user.
    public let subject: String
    /// The claims that the provider confirmed.
    ///
    /// `unverified` holds claims that came only in a callback parameter.
    public let identity: [String: JSONValue]
    /// The granted scopes.
    ///
    /// The list is empty when they are unknown.
    public let scope: [String]
    /// The time of the sign-in at the broker.
    public let createdAt: Date
    /// The time of the last use.
    public let lastUsedAt: Date
    /// The time at which the session expires if it is not used.
    public let idleExpiresAt: Date
    /// The time at which the session expires in any case.
    public let expiresAt: Date
    /// The known facts about the provider's tokens.
    public let tokens: Tokens
    /// The session's key, or nil for an unbound session.
    public let binding: Binding?
    /// The `acr` of the last sign-in, if the provider sent one.
    public let acr: String?
    /// The `amr` of the last sign-in, if the provider sent any.
    public let amr: [String]?
    /// The time of the sign-in at the provider, if the provider sent it.
    public let authenticatedAt: Date?
    /// The presence key, which proves that the user confirmed a call; nil if the session has none.
    public let presence: Presence?
    /// The kind of a child session, as the configuration names it.
    public let kind: String?
    /// The handle of a child session's parent.
    public let parent: String?
    /// Whether this is the device's own session (only in a list of sessions).
    public let current: Bool?
    /// The name of the device (only in a list of sessions).
    public let device: String?

    enum CodingKeys: String, CodingKey {
        case handle, version, provider, client, subject, identity, scope, tokens, binding, acr, amr, presence, kind,
            parent,
            current, device
        case createdAt = "created_at", lastUsedAt = "last_used_at", authenticatedAt = "authenticated_at"
        case idleExpiresAt = "idle_expires_at", expiresAt = "expires_at"
    }

    /// The user's name, if the provider confirmed one.
    public var name: String? { identity["name"]?.text }

    /// Returns the newer of this session object, from a response, and a known object of the same session.
    ///
    /// A replica may answer with data that is some seconds old, so a lower version never replaces a higher one. An equal
    /// version replaces the known object, and so does the response of an older broker, which has no version.
    func newest(_ known: Session?) -> Session {
        guard let known, known.handle == handle, let version, version < known.version ?? 0 else { return self }
        return known
    }
}
