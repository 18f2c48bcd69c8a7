import Foundation

/// The provider's access token, for an SDK on the device that wants it itself.
public struct AccessToken: Codable, Sendable, Hashable {
    /// The token.
    public let value: String
    /// The scheme under which it is sent.
    public let type: String
    /// The end of it, where that is known.
    public let expiresAt: Date?
    /// The scopes that it allows; empty when unknown.
    public let scope: [String]

    enum CodingKeys: String, CodingKey {
        case value = "access_token", type = "token_type", expiresAt = "expires_at", scope
    }
}
