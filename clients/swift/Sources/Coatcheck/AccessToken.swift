import Foundation

/// The provider's access token, for an SDK on the device that needs the token itself.
public struct AccessToken: Codable, Sendable, Hashable {
    /// The token.
    public let value: String
    /// The token's scheme in the `Authorization` field.
    public let type: String
    /// The expiry of the token, if the broker knows it.
    public let expiresAt: Date?
    /// The scopes that the token allows.
    ///
    /// The list is empty when they are unknown.
    public let scope: [String]

    enum CodingKeys: String, CodingKey {
        case value = "access_token", type = "token_type", expiresAt = "expires_at", scope
    }
}
