import Foundation

/// A Zephr partial registration, with the attributes that the user still has to give.
public struct Registration: Codable, Sendable, Hashable {
    /// An attribute that the user has to give.
    public struct Field: Codable, Sendable, Hashable {
        /// The kinds of values.
        public enum Kind: String, Codable, Sendable { case string, number, boolean }

        /// The attribute's name.
        public let name: String
        /// The kind of the attribute's value.
        public let type: Kind
        /// Whether the attribute is required.
        public let required: Bool
    }

    /// The provider's name at the broker.
    public let provider: String
    /// The state key, which finishes the registration.
    public let stateKey: String
    /// The e-mail address from the social provider.
    public let identifier: String?
    /// The expiry of the registration.
    public let expiresAt: Date
    /// The fields of the form.
    public let fields: [Field]

    enum CodingKeys: String, CodingKey {
        case provider, identifier, fields
        case stateKey = "state_key", expiresAt = "expires_at"
    }
}
