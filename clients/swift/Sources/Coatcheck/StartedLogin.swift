import Foundation

/// A login that waits for its callback.
struct StartedLogin: Codable, Sendable, Hashable {
    let loginID: String
    let authorizationURL: String
    let expiresAt: Date
    let loginToken: String?

    enum CodingKeys: String, CodingKey {
        case loginID = "login_id", authorizationURL = "authorization_url", expiresAt = "expires_at"
        case loginToken = "login_token"
    }
}
