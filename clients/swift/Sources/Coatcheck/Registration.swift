import Foundation

/// A Zephr partial registration: the attributes that the user still has to give.
public struct Registration: Codable, Sendable, Hashable {
    /// One attribute to ask for.
    public struct Field: Codable, Sendable, Hashable {
        /// The kinds of value.
        public enum Kind: String, Codable, Sendable { case string, number, boolean }

        /// The attribute's name.
        public let name: String
        /// The kind of value that it takes.
        public let type: Kind
        /// Whether it has to be given.
        public let required: Bool
    }

    /// The provider's name at the broker.
    public let provider: String
    /// The key that finishes it, once.
    public let stateKey: String
    /// The e-mail address that the social provider gave.
    public let identifier: String?
    /// The time until which it can be finished.
    public let expiresAt: Date
    /// The fields to ask the user for.
    public let fields: [Field]

    enum CodingKeys: String, CodingKey {
        case provider, identifier, fields
        case stateKey = "state_key", expiresAt = "expires_at"
    }
}
