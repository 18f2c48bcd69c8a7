/// A refresh token; a spent token is kept, so that its reuse is recognised.
struct RefreshToken: Sendable {
    var grant: String
    var expiresAt: Double
    var spent = false
    /// The token that replaced this one.
    var successor: String?
}
