import Foundation

/// The provider's access token, for an SDK on the device that wants it itself.
public struct AccessToken: Codable, Sendable, Hashable {
    /// The token.
    public let value: String
    /// How it is sent.
    public let type: String
    /// When it ends, where that is known.
    public let expiresAt: Date?
    /// What it allows; empty when unknown.
    public let scope: [String]

    enum CodingKeys: String, CodingKey {
        case value = "access_token", type = "token_type", expiresAt = "expires_at", scope
    }
}
