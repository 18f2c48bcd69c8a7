/// What one user allowed one client; every code and token hangs on one.
struct Grant: Sendable {
    var id: String
    var provider: String
    var clientID: String
    var user: String
    var scope: String
    var nonce: String?
    var authenticatedAt: Double
    var sid: String
    /// What else the authorize request said (`access_type`, `merchant_id`, …).
    var extras: [String: String]
    var revoked = false

    var scopes: Set<String> { Set(scope.split(whereSeparator: { $0 == " " || $0 == "," }).map(String.init)) }
}

/// An authorization code.
struct IssuedCode: Sendable {
    var grant: String
    var redirectURI: String?
    var challenge: String?
    var expiresAt: Double
    var used = false
}

/// An access token.
struct AccessToken: Sendable {
    var grant: String
    var expiresAt: Double
    /// Whether it came from a refresh.
    var refreshed = false
}

/// A refresh token; a spent one is kept, so that its reuse is noticed.
struct RefreshToken: Sendable {
    var grant: String
    var expiresAt: Double
    var spent = false
    /// The one that took its place.
    var successor: String?
}

/// A pushed authorization request (RFC 9126).
struct PushedRequest: Sendable {
    var provider: String
    var clientID: String
    var parameters: Pairs
    var expiresAt: Double
}

/// A Zephr session.
struct ZephrSession: Sendable {
    var user: String
    var email: String?
    var trackingID: String
    var attributes: JSON
}

/// A Zephr partial registration.
struct ZephrStateKey: Sendable {
    var user: String
    var email: String
    var expiresAt: Double
    var spent = false
}
